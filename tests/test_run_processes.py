"""A tree of processes is started, asked and ended as a whole, on POSIX for real and on Windows by simulated calls."""

from __future__ import annotations

import ast
import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_programs import gone, pids_in, stubborn, until

from headroom.run import processes

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX signals; the Windows calls are tested apart")
POLITE = "import signal, sys, time\ntry:\n    print('up', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    sys.exit(7)\n"


@posix
def test_an_interrupt_reaches_the_head_as_ctrl_c_does() -> None:
    process = processes.start([sys.executable, "-c", POLITE], stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"up\n"
    processes.interrupt(process)
    assert process.wait(20) == 7


@posix
def test_a_tree_that_ignores_requests_is_killed_whole(tmp_path: Path) -> None:
    command, file = stubborn(tmp_path)
    process = processes.start(command)
    head, other = pids_in(file)
    assert head == process.pid
    assert processes.tree(head) >= {head}
    processes.end(process, "", 0.1, 0.1)
    assert process.returncode == -9
    gone(head, other)
    assert processes.tree(head) == set()


@posix
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux tells another process's environment")
def test_a_process_that_left_the_group_is_found_by_its_mark(tmp_path: Path) -> None:
    command, file = stubborn(tmp_path, "astray")
    process = processes.start(command, env={**os.environ, processes.MARK: "m1"})
    head, other = pids_in(file)
    assert os.getpgid(other) != head
    until(lambda: processes.tree(head, "m1") == {head, other}, 20)
    processes.end(process, "m1", 0.1, 0.1)
    gone(head, other)


@posix
def test_what_has_ended_is_not_alive_even_before_it_was_waited_for() -> None:
    process = processes.start([sys.executable, "-c", "pass"])
    assert processes.alive(os.getpid())
    if Path("/proc").is_dir():
        until(lambda: not processes.alive(process.pid), 20)
    process.wait()
    assert not processes.alive(process.pid)


@posix
@pytest.mark.parametrize("head", [1, 0, -1])
def test_no_signal_goes_to_everything(head: int) -> None:
    with pytest.raises(ValueError):
        processes.kill(head)
    with pytest.raises(ValueError):
        processes.terminate(head)


def test_a_program_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        processes.start([str(tmp_path / "none")])


def test_nothing_of_one_system_only_is_imported_by_a_module() -> None:
    one_system = {"fcntl", "msvcrt", "winreg", "_winapi", "pwd", "grp", "resource", "termios", "ctypes"}
    for path in Path(processes.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                assert not one_system & {name.name for name in node.names}, path
            elif isinstance(node, ast.ImportFrom):
                assert node.module not in one_system, path


# ---- Windows, by simulated calls


class Kernel:
    """Records the calls to kernel32 and answers them."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            return self.answers.get(name, 1)

        return call


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "WINDOWS", True)


def _popen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: started.append({"command": command, **options}))
    return started


def test_windows_starts_a_process_group_and_no_window(windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    started = _popen(monkeypatch)
    processes.start(["trainer"])
    processes.start(["supervisor"], own_console=True)
    assert [each["creationflags"] for each in started] == [0x200, 0x200 | 0x08000000]
    assert not any("start_new_session" in each for each in started)


@pytest.mark.parametrize("refused", [False, True])
def test_windows_lets_what_outlives_us_out_of_our_job_object(
    windows: None, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    flags: list[int] = []

    def popen(command: list[str], creationflags: int, **_: Any) -> None:
        flags.append(creationflags)
        if refused and creationflags & 0x01000000:  # CREATE_BREAKAWAY_FROM_JOB
            raise PermissionError("the job object lets nobody go")

    monkeypatch.setattr(subprocess, "Popen", popen)
    processes.start(["supervisor"], own_console=True, outlives_us=True)
    assert flags == [0x09000200, 0x08000200][: 1 + refused]


def test_windows_interrupts_by_ctrl_break(windows: None) -> None:
    class Process:
        sent: list[int] = []  # noqa: RUF012

        def send_signal(self, number: int) -> None:
            self.sent.append(number)
            raise OSError("no console")

    processes.interrupt(Process())  # type: ignore[arg-type]
    assert Process.sent == [1]


def test_windows_kills_a_tree_by_taskkill(windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: ran.append(command))
    processes.terminate(123)
    assert ran == []
    processes.kill(123, "mark")
    assert ran == [["taskkill", "/F", "/T", "/PID", "123"]]


@pytest.mark.parametrize(("waited", "alive"), [(0x102, True), (0, False)])
def test_windows_asks_a_handle_whether_it_is_alive(
    windows: None, monkeypatch: pytest.MonkeyPatch, waited: int, alive: bool
) -> None:
    kernel = Kernel(OpenProcess=44, WaitForSingleObject=waited)
    monkeypatch.setattr(processes, "_kernel32", lambda: kernel)
    assert processes.alive(123) is alive
    assert processes.tree(123) == ({123} if alive else set())
    assert kernel.calls[:3] == [
        ("OpenProcess", 0x101000, False, 123),
        ("WaitForSingleObject", 44, 0),
        ("CloseHandle", 44),
    ]


def test_windows_knows_no_handle_for_what_is_gone(windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(OpenProcess=None)
    monkeypatch.setattr(processes, "_kernel32", lambda: kernel)
    assert processes.alive(123) is False
    assert [call[0] for call in kernel.calls] == ["OpenProcess"]


def test_windows_binds_what_is_started_to_this_process(windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(CreateJobObjectW=55, GetCurrentProcess=66)
    monkeypatch.setattr(processes, "_kernel32", lambda: kernel)
    assert processes.bind_to_this_process() == 55
    _, set_information, _, assign = kernel.calls
    assert (set_information[1:3], assign) == ((55, 9), ("AssignProcessToJobObject", 55, 66))
    limits = set_information[3]._obj
    assert limits.flags == 0x2000  # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
    if ctypes.sizeof(ctypes.c_size_t) == 8:
        assert set_information[4] == 144  # JOBOBJECT_EXTENDED_LIMIT_INFORMATION on 64-bit Windows
        assert type(limits).flags.offset == 16


def test_windows_goes_on_unbound_where_the_system_refuses(windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(CreateJobObjectW=55, AssignProcessToJobObject=0)
    monkeypatch.setattr(processes, "_kernel32", lambda: kernel)
    assert processes.bind_to_this_process() is None
    assert kernel.calls[-1] == ("CloseHandle", 55)


@posix
def test_elsewhere_nothing_is_bound() -> None:
    assert processes.bind_to_this_process() is None
