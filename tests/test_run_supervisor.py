"""Whoever of the three is killed (the program that runs, the supervisor, the trainer), no process is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_programs import ROOT, RUNNER, gone, pids_in, stubborn, until

from headroom.run import gpu_lock, processes, supervised

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals; the Windows calls are in test_run_processes")
TIMES = [*range(2), *(pytest.param(time_, marks=pytest.mark.soak) for time_ in range(2, 20))]
ECHO = "import sys\nprint('up', flush=True)\nfor line in sys.stdin:\n    print('asked', line.strip(), flush=True)\n    if line == 'stop\\n': sys.exit(3)\n"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.mark.parametrize("time_", TIMES)
@pytest.mark.parametrize("astray", [(), ("astray",)], ids=["group", "astray"])
@pytest.mark.parametrize("victim", ["runner", "supervisor", "trainer"])
def test_no_single_kill_leaves_a_process(tmp_path: Path, victim: str, astray: tuple[str, ...], time_: int) -> None:
    if astray and not Path("/proc/self/environ").exists():
        pytest.skip("only Linux tells another process's environment")
    command, file = stubborn(tmp_path, *astray)
    locks = tmp_path / "locks"
    options = {"command": command, "log": str(tmp_path / "log.txt"), "gpu": "GPU-1", "locks": str(locks)}
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(ROOT), json.dumps(options)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert runner.stdout
    said = json.loads(runner.stdout.readline())
    trainer, other = pids_in(file)
    assert trainer == said["trainer"]
    held = gpu_lock.holder("GPU-1", locks)
    assert held and held.pid == said["supervisor"]

    os.kill({"runner": runner.pid, "supervisor": said["supervisor"], "trainer": trainer}[victim], signal.SIGKILL)
    gone(trainer, other, said["supervisor"], mark=said["mark"])
    assert gpu_lock.holder("GPU-1", locks) is None
    if victim != "runner":
        assert runner.poll() is None
        runner.kill()
    runner.wait()
    runner.stdout.close()


def test_the_end_of_its_input_alone_ends_the_trainer(tmp_path: Path) -> None:
    command, file = stubborn(tmp_path)
    run = supervised.start(command, tmp_path / "log.txt", ask_seconds=0.2, term_seconds=0.2)
    pids = pids_in(file)
    assert run.supervisor.stdin
    run.supervisor.stdin.close()
    assert run.wait(20)
    gone(*pids, run.supervisor.pid)


def test_a_copy_of_the_pipe_in_another_process_does_not_hide_the_end(tmp_path: Path) -> None:
    command, file = stubborn(tmp_path)
    options = {"command": command, "log": str(tmp_path / "log.txt"), "fork": True}
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(ROOT), json.dumps(options)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert runner.stdout
    said = json.loads(runner.stdout.readline())
    pids = pids_in(file)
    until(lambda: len(processes.tree(runner.pid)) == 2, 20)
    runner.kill()
    runner.wait()
    gone(*pids, said["supervisor"], seconds=15)
    assert len(processes.tree(runner.pid)) == 1  # which had the copy all along
    processes.kill(runner.pid)
    runner.stdout.close()


def test_the_supervisor_itself_ends_what_a_trainer_leaves_behind(tmp_path: Path) -> None:
    command, file = stubborn(tmp_path)
    options = {"--log": str(tmp_path / "log.txt"), "--mark": "m1", "--parent": str(os.getpid()), "--ask-seconds": "9", "--term-seconds": "9"}
    supervisor = subprocess.Popen(
        [sys.executable, "-c", supervised._PROGRAM, str(ROOT), *(part for pair in options.items() for part in pair), "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    head, other = pids_in(file)
    os.kill(head, signal.SIGKILL)
    assert supervisor.stdout
    said = [json.loads(line) for line in supervisor.stdout]
    supervisor.communicate()
    assert said == [{"status": "started", "pid": head}, {"status": "ended", "code": -9, "cancelled": False}]
    assert supervisor.returncode == 0 and not processes.alive(other)


def test_a_cancel_returns_at_once_and_the_tree_is_gone_within_five_seconds(tmp_path: Path) -> None:
    command, file = stubborn(tmp_path)
    run = supervised.start(command, tmp_path / "log.txt")
    pids = pids_in(file)
    begun = time.monotonic()
    run.cancel()
    assert time.monotonic() - begun < 1
    assert run.wait(5)
    assert not any(processes.alive(pid) for pid in (*pids, run.supervisor.pid))
    assert (run.cancelled, run.code) == (True, -9)


def test_a_supervisor_that_hangs_does_not_keep_a_cancel_from_its_end(tmp_path: Path) -> None:
    command, file = stubborn(tmp_path)
    run = supervised.start(command, tmp_path / "log.txt")
    pids = pids_in(file)
    os.kill(run.supervisor.pid, signal.SIGSTOP)
    run.cancel()
    assert run.wait(20)
    gone(*pids, run.supervisor.pid)
    assert run.cancelled


def test_requests_reach_the_trainer_and_its_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    run = supervised.start([sys.executable, "-c", ECHO], log)
    run.ask("save")
    run.ask("sample")
    run.ask("stop")
    assert run.wait(20)
    assert _text(log).split("\n") == ["up", "asked save", "asked sample", "asked stop", ""]
    assert (run.code, run.cancelled) == (3, False)
    run.ask("save")  # after its end this does nothing
    run.cancel()


def test_only_known_requests_are_handed_on(tmp_path: Path) -> None:
    run = supervised.start([sys.executable, "-c", ECHO], tmp_path / "log.txt")
    with pytest.raises(ValueError):
        run.ask("cancel\nstop")
    run.ask("stop")
    assert run.wait(20)


def test_what_a_trainer_leaves_behind_is_ended_with_it(tmp_path: Path) -> None:
    command, file = stubborn(tmp_path)
    leaves = f"import subprocess, sys, time, os\nsubprocess.Popen({command!r})\nwhile not os.path.exists({str(file)!r}): time.sleep(0.02)\n"
    run = supervised.start([sys.executable, "-c", leaves], tmp_path / "log.txt")
    assert run.wait(20)
    assert run.code == 0
    assert not any(processes.alive(pid) for pid in pids_in(file))


def test_an_interrupt_lets_the_trainer_say_goodbye(tmp_path: Path) -> None:
    polite = "import time\nprint('up', flush=True)\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('goodbye', flush=True)\n"
    log = tmp_path / "log.txt"
    run = supervised.start([sys.executable, "-c", polite], log)
    until(lambda: "up" in _text(log), 20)
    run.cancel()
    assert run.wait(20)
    assert _text(log) == "up\ngoodbye\n"
    assert (run.code, run.cancelled) == (0, True)


def test_a_trainer_that_cannot_be_started_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-program"):
        supervised.start([str(tmp_path / "no-such-program")], tmp_path / "log.txt")


def test_a_gpu_that_another_run_holds_is_said_with_its_holder(tmp_path: Path) -> None:
    locks, log = tmp_path / "locks", tmp_path / "cat" / "run-0007" / "log.txt"
    log.parent.mkdir(parents=True)
    first = supervised.start([sys.executable, "-c", ECHO], log, gpu="GPU-1", locks=locks)
    with pytest.raises(gpu_lock.GpuBusy) as busy:
        supervised.start([sys.executable, "-c", ECHO], tmp_path / "log.txt", gpu="GPU-1", locks=locks)
    assert busy.value.holder and (busy.value.holder.pid, busy.value.holder.run) == (first.supervisor.pid, "cat/run-0007")
    other = supervised.start([sys.executable, "-c", ECHO], tmp_path / "log.txt", gpu="GPU-2", locks=locks)
    for run in (first, other):
        run.ask("stop")
        assert run.wait(20)
    again = supervised.start([sys.executable, "-c", ECHO], tmp_path / "log.txt", gpu="GPU-1", locks=locks)
    again.ask("stop")
    assert again.wait(20)
