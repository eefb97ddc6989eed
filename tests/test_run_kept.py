"""HEADROOM_KEEP_RUNS: a run goes on when the program that started it dies, and is picked up by the next that wants it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from run_programs import ROOT, gone, until
from toolkits import ENVIRONMENT, Toolkit, job_data

from headroom.contracts import Budget, Job
from headroom.job import read_job
from headroom.job.stranger import Rules
from headroom.memory.nvml import GpuReading
from headroom.run import gpu_lock, processes, records
from headroom.run.ai_toolkit import AiToolkit, AiToolkitRun, settle
from headroom.run.events import read_events
from headroom.run.holding import RunInUse, held
from headroom.run.store import Run, Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in speaks POSIX signals")
STANDIN = Path(__file__).parent / "standins" / "probe.py"
TIMES = [*range(2), *(pytest.param(time_, marks=pytest.mark.soak) for time_ in range(2, 20))]
JOB = """\
job: extension
config:
  name: cat
  process:
    - type: sd_trainer
      training_folder: elsewhere
      datasets:
        - folder_path: data
      train: {{steps: 5}}
      model: {{name_or_path: none/at-all, arch: sd1}}
      standin: {how}
"""
# Starts a run and waits, as ComfyUI does.
COMFYUI = """
import sys, time
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from pathlib import Path
from test_run_kept import engine_in, job
from dataclasses import replace
from headroom.contracts import Budget
run = replace(engine_in(Path(sys.argv[3])), keep=sys.argv[5] == "keep").start(job(sys.argv[4]), Budget(gpu="GPU-1"))
print(run.folder, flush=True)
time.sleep(120)
"""

# The same with an AI Toolkit.
TRAINS = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from headroom.job import read_job_file
from headroom.memory.nvml import GpuReading
from headroom.run.ai_toolkit import AiToolkit
from headroom.run.store import Store
store, job, toolkit, python = map(Path, sys.argv[2:])
engine = AiToolkit(toolkit, python, None, Store(store), keep=True, gpus=GpuReading)
print(engine.start(read_job_file(job)).folder, flush=True)
time.sleep(300)
"""


def engine_in(folder: Path) -> AiToolkit:
    toolkit = folder / "ai-toolkit"
    rules = Rules(output=toolkit, reads=(toolkit,), base=toolkit)
    python, locks, store = Path(sys.executable), folder / "locks", Store(folder / "runs")
    return AiToolkit(toolkit, python, rules, store, keep=True, locks=locks, probe=STANDIN, gpus=GpuReading)


def job(how: str) -> Job:
    return read_job(JOB.format(how=how))


@dataclass(frozen=True)
class Left:
    """A run whose ComfyUI was killed in the middle of it."""

    run: Run
    supervisor: int
    trainer: int
    mark: str


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AiToolkit:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # nobody is asked what the jobs' models hold
    (tmp_path / "ai-toolkit" / "data").mkdir(parents=True)
    return engine_in(tmp_path)


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    until(lambda: not _running_in(tmp_path), 10)


def _running_in(folder: Path) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [path] if str(folder).encode() in path.read_bytes() else []
    return found


def _left(engine: AiToolkit, how: str = "wait") -> Left:
    folder = engine.store.folder.parent
    command = [sys.executable, "-c", COMFYUI, str(ROOT), str(ROOT / "tests"), str(folder), how, "keep"]
    comfyui = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert comfyui.stdout
    run = engine.store.show(comfyui.stdout.readline().decode().strip())
    _waiting(run)
    comfyui.kill()
    comfyui.wait()
    comfyui.stdout.close()
    said, about = records.read(run.supervisor), records.read(run.kept)
    assert said and about
    return Left(run, said["pid"], said["trainer"], about["mark"])


def _waiting(run: Run) -> None:
    until(lambda: "waiting" in run.log.read_text(encoding="utf-8"), 20)


def _ended(run: AiToolkitRun) -> Any:
    result = run.wait(30)
    assert result is not None
    return result


# ---- picked up


def test_a_run_goes_on_without_comfyui_and_is_picked_up_whole(engine: AiToolkit) -> None:
    left = _left(engine)
    assert left.run.state == "running" and processes.alive(left.trainer)
    with pytest.raises(RunInUse):
        engine.store.remove(left.run)
    run = engine.start(job("wait"))
    assert run.folder == left.run.folder and run.result is None and run.budget == Budget(gpu="GPU-1")
    assert [change.path for change in run.changes] == ["training_folder"]
    assert [event.keys["step"] for event in run.read() if event.event == "step"] == [1, 2]  # from the first
    run.ask("sample")
    result = _ended(run)
    assert (result.outcome, run.short_of, run.run.state) == ("finished", (), "finished")
    assert [(each["kind"], each["step"]) for each in run.run.index()] == [
        ("checkpoint", 2),
        ("sample", 3),
        ("checkpoint", 5),
    ]
    gone(left.trainer, left.supervisor, mark=left.mark)
    again = engine.start(job("wait"))
    assert (again.folder, again.result) == (run.folder, result)


def test_it_is_picked_up_also_where_runs_are_no_longer_kept(engine: AiToolkit) -> None:
    left = _left(engine)
    run = replace(engine, keep=False, force=True).start(job("wait"))
    assert run.folder == left.run.folder
    run.ask("stop")
    result = _ended(run)
    assert (result.outcome, Path(result.checkpoint).name) == ("cancelled", "cat_000000003.safetensors")


def test_one_that_ended_meanwhile_is_judged_then_and_its_result_kept(engine: AiToolkit) -> None:
    left = _left(engine)
    left.run.requests.write_bytes(b"sample\n")  # it goes on to its end, and nobody looks
    gone(left.trainer, left.supervisor, mark=left.mark)
    assert left.run.state == "unfinished" and left.run.result() is None
    run = engine.start(job("wait"))
    assert run.folder == left.run.folder
    assert run.result and (run.result.outcome, run.result.steps.done) == ("finished", 5)
    assert run.result.peaks == {"load": (1.25, 2.0), "train": (3.0, 2.5)}
    kept = left.run.result()
    assert kept and kept["exit_code"] == 0 and kept["checkpoint_as"]
    assert [each["step"] for each in left.run.index()] == [2, 3, 5]


def test_other_work_settles_what_has_ended_too(engine: AiToolkit) -> None:
    left = _left(engine)
    left.run.requests.write_bytes(b"stop\n")
    gone(left.trainer, left.supervisor, mark=left.mark)
    settle(engine.store)
    assert left.run.state == "cancelled"
    again = engine.start(job("wait"))
    assert again.folder != left.run.folder and again.run.output == left.run.output  # it goes on from there
    again.cancel()
    _ended(again)


def test_two_that_follow_a_run_get_the_same_result(engine: AiToolkit) -> None:
    first = engine.start(job("wait"))
    _waiting(first.run)
    second = engine.start(job("wait"))
    assert second.folder == first.folder
    second.ask("sample")
    assert _ended(first) == _ended(second)
    assert len(first.run.index()) == 3


def test_a_real_trainer_outlives_comfyui_too(toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    data = job_data(toolkit, tmp_path, "sd1", steps=5000)
    data["config"]["process"][0]["train"]["disable_sampling"] = True
    text = tmp_path / "job.json"
    text.write_text(json.dumps(data), encoding="utf-8")
    arguments = [str(tmp_path / "runs"), str(text), str(toolkit.folder), str(toolkit.python)]
    comfyui = subprocess.Popen([sys.executable, "-c", TRAINS, str(ROOT), *arguments], stdout=subprocess.PIPE)
    assert comfyui.stdout
    run = Store(tmp_path / "runs").show(comfyui.stdout.readline().decode().strip())
    until(lambda: any(event.event == "step" for event in read_events(run.events)), 300)
    comfyui.kill()
    comfyui.wait()
    comfyui.stdout.close()
    engine = AiToolkit(toolkit.folder, toolkit.python, None, Store(tmp_path / "runs"), gpus=GpuReading)
    picked_up = engine.start(read_job(text.read_text(encoding="utf-8")))
    assert picked_up.folder == run.folder and picked_up.result is None
    last = [event.keys["step"] for event in picked_up.read() if event.event == "step"][-1]
    until(lambda: any(event.event == "step" and event.keys["step"] > last for event in picked_up.read()), 60)
    picked_up.cancel(save=True)
    result = picked_up.wait(60)
    assert result and result.outcome == "cancelled" and int(str(result.checkpoint)[-21:-12]) > last
    assert not processes.tree(-1, (records.read(run.kept) or {})["mark"])


# ---- it ends


@pytest.mark.parametrize("how", ["wait", "stubborn"])
def test_a_cancel_ends_everything_within_five_seconds(engine: AiToolkit, how: str) -> None:
    left = _left(engine, how)
    run = engine.start(job(how))
    begun = time.monotonic()
    run.cancel()
    assert time.monotonic() - begun < 1
    result = run.wait(5)
    assert result and result.outcome == "cancelled"
    assert not processes.tree(left.trainer, left.mark) and not processes.alive(left.supervisor)
    assert gpu_lock.holder("GPU-1", engine.locks) is None


def test_a_cancel_that_saves_ends_though_nobody_looks_any_more(engine: AiToolkit) -> None:
    left = _left(engine, "deaf")
    left.run.requests.write_bytes(b"stop 1\n")
    gone(left.trainer, left.supervisor, mark=left.mark)
    settle(engine.store)
    assert left.run.state == "cancelled"


def test_a_supervisor_that_hangs_does_not_keep_a_cancel_from_its_end(engine: AiToolkit) -> None:
    left = _left(engine)
    run = engine.start(job("wait"))
    os.kill(left.supervisor, signal.SIGSTOP)
    run.cancel()
    assert _ended(run).outcome == "cancelled"
    gone(left.trainer, left.supervisor, mark=left.mark)


@pytest.mark.parametrize("time_", TIMES)
@pytest.mark.parametrize("followed", [True, False], ids=["followed", "alone"])
@pytest.mark.parametrize("victim", ["supervisor", "trainer"])
def test_no_single_kill_leaves_a_process_and_the_next_run_goes_on(
    engine: AiToolkit, victim: str, followed: bool, time_: int
) -> None:
    left = _left(engine)
    run = engine.start(job("wait")) if followed else None
    os.kill(left.supervisor if victim == "supervisor" else left.trainer, signal.SIGKILL)
    gone(left.trainer, left.supervisor, mark=left.mark)
    assert gpu_lock.holder("GPU-1", engine.locks) is None
    if run:
        assert _ended(run).outcome == "failed"
    again = engine.start(job("wait"))
    assert left.run.state == "failed" and (left.run.result() or {})["checkpoint"].endswith("_000000002.safetensors")
    assert again.folder != left.run.folder and again.run.output == left.run.output
    again.cancel()
    _ended(again)


def test_without_the_setting_it_dies_with_comfyui(engine: AiToolkit) -> None:
    folder = engine.store.folder.parent
    command = [sys.executable, "-c", COMFYUI, str(ROOT), str(ROOT / "tests"), str(folder), "wait", "end"]
    comfyui = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert comfyui.stdout
    run = engine.store.show(comfyui.stdout.readline().decode().strip())
    _waiting(run)
    comfyui.kill()
    comfyui.wait()
    comfyui.stdout.close()
    until(lambda: gpu_lock.holder("GPU-1", engine.locks) is None, 20)
    assert run.state == "unfinished" and not run.kept.exists()


def test_what_cannot_be_started_leaves_no_run(engine: AiToolkit, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        replace(engine, python=tmp_path / "none").start(job("finish"))
    first = engine.start(job("wait"), Budget(gpu="GPU-1"))
    with pytest.raises(gpu_lock.GpuBusy):
        engine.start(read_job(JOB.format(how="finish").replace("cat", "dog")), Budget(gpu="GPU-1"))
    assert [run.folder for run in engine.store.list()] == [first.folder]
    first.cancel()
    _ended(first)


# ---- its records, after a crash at any byte


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an engine with a run that ended and that nobody has judged."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "ai-toolkit" / "data").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        run = engine_in(folder).start(job("finish"))
    assert _ended(run).outcome == "finished"
    (run.folder / "result.json").unlink()
    return folder


@pytest.mark.parametrize("name", ["supervisor", "kept.json", "requests", "events.jsonl", "index.jsonl", "log.txt"])
def test_records_cut_at_any_byte_cost_the_last_line_at_most(finished: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(finished / "runs", tmp_path / "runs")
    store = Store(tmp_path / "runs")
    (run,) = store.list()
    path = run.folder / name
    whole = path.read_bytes() if path.exists() else b"save\nsample\n"
    for size in {*range(0, len(whole), max(1, len(whole) // 12)), len(whole) - 1}:
        path.write_bytes(whole[:size])
        settle(store)
        assert run.state in (("unfinished",) if name == "kept.json" else ("finished", "failed")), size
        kept = run.result()
        if kept and name in ("requests", "index.jsonl"):
            assert kept["outcome"] == "finished", size
        (run.folder / "result.json").unlink(missing_ok=True)
        assert not held(run.supervisor) and json.dumps(run.index())
    path.write_bytes(whole)
    settle(store)
    assert run.state == "finished"
