"""Processes and their whole trees: start, interrupt, terminate, kill, ask; and file locks that end with a process.

The only module of the package that knows the system.

On POSIX a tree is a process group (a new session). On Linux also every process that carries the tree's mark in its
environment, so that one that left the group is found as well. On Windows a tree is what descends from a process;
``bind_to_this_process`` makes the system itself end it with the process that owns it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WINDOWS = os.name == "nt"
MARK = "HEADROOM_TREE"  # environment variable: every process of a tree inherits its value

# Constants of Windows, which Python names on Windows only (winnt.h, winbase.h, consoleapi.h).
_CREATE_NEW_PROCESS_GROUP = 0x00000200
_CREATE_NO_WINDOW = 0x08000000
_CREATE_BREAKAWAY_FROM_JOB = 0x01000000
_CTRL_BREAK_EVENT = 1
_PROCESS_QUERY_LIMITED_INFORMATION = 0x1000
_SYNCHRONIZE = 0x00100000
_WAIT_TIMEOUT = 0x00000102
_KILL_ON_JOB_CLOSE = 0x2000
_EXTENDED_LIMIT_INFORMATION = 9

_LOCKED_BYTE = 1 << 30  # Windows refuses to read what is locked, so what is locked lies far behind the text

_PROC = Path("/proc")


def start(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: Any = None,
    stdout: Any = None,
    stderr: Any = None,
    own_console: bool = False,
    outlives_us: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program as the head of its own tree. Raises OSError where it cannot be started.

    ``own_console`` (Windows): with a console of its own that is not shown. A program can be sent Ctrl-Break only by
    one that shares its console, so the supervisor gets one and the trainer shares that. ``outlives_us`` (Windows): not
    in the job object that we may be in ourselves and that would end it with us, where that lets it go.
    """
    given: dict[str, Any] = {"cwd": cwd, "env": env, "stdin": stdin, "stdout": stdout, "stderr": stderr}
    if not WINDOWS:
        return subprocess.Popen(list(command), **given, start_new_session=True)
    flags = _CREATE_NEW_PROCESS_GROUP | (_CREATE_NO_WINDOW if own_console else 0)
    if outlives_us:
        with contextlib.suppress(PermissionError):  # the job object lets nobody go
            return subprocess.Popen(list(command), **given, creationflags=flags | _CREATE_BREAKAWAY_FROM_JOB)
    return subprocess.Popen(list(command), **given, creationflags=flags)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ask the head of a tree to stop, as Ctrl-C does (Ctrl-Break on Windows, which a group can be sent alone)."""
    with contextlib.suppress(OSError):  # it has just ended, or (Windows) has no console: termination follows anyway
        process.send_signal(_CTRL_BREAK_EVENT if WINDOWS else signal.SIGINT)


def terminate(head: int, mark: str = "") -> None:
    """Ask every process of a tree to end. Windows has no such request: there this does nothing, and ``kill`` acts."""
    if not WINDOWS:
        _signal_tree(head, mark, signal.SIGTERM)


def kill(head: int, mark: str = "") -> None:
    """End every process of a tree at once, without asking it."""
    if WINDOWS:
        subprocess.run(
            ["taskkill", "/F", "/T", "/PID", str(head)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            creationflags=_CREATE_NO_WINDOW,
            check=False,
        )
    else:
        _signal_tree(head, mark, getattr(signal, "SIGKILL", signal.SIGTERM))


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not yet waited for does not."""
    if WINDOWS:
        kernel = _kernel32()
        handle = kernel.OpenProcess(_PROCESS_QUERY_LIMITED_INFORMATION | _SYNCHRONIZE, False, pid)
        if not handle:
            return False
        try:
            return kernel.WaitForSingleObject(handle, 0) == _WAIT_TIMEOUT
        finally:
            kernel.CloseHandle(handle)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _ended(pid)


def tree(head: int, mark: str = "") -> set[int]:
    """The processes of a tree that still run, as far as this system can say: without ``/proc`` the head only."""
    if WINDOWS or not _PROC.is_dir():
        return {head} if alive(head) else set()
    marked = f"{MARK}={mark}".encode()
    found = set()
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        try:
            belongs = os.getpgid(pid) == head or (mark and marked in (entry / "environ").read_bytes().split(b"\0"))
        except OSError:  # it has ended, or is another user's
            continue
        if belongs and not _ended(pid):
            found.add(pid)
    return found


def end(process: subprocess.Popen[bytes], mark: str, ask_seconds: float, term_seconds: float) -> None:
    """Interrupt, then terminate, then kill a tree, with a time for each; returns when the head was waited for."""
    interrupt(process)
    if _waited(process, ask_seconds):
        terminate(process.pid, mark)
        _waited(process, term_seconds)
    kill(process.pid, mark)
    process.wait()


def bind_to_this_process() -> Any:
    """Windows: every process started from now on ends with this one, however it ends; keep what is returned.

    A job object with JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, whose only handle is ours. Elsewhere ``None``: there the
    watchers at both ends of a pipe do it. ``None`` on Windows too where the system refuses.
    """
    if not WINDOWS:
        return None
    import ctypes

    class Limits(ctypes.Structure):
        # JOBOBJECT_EXTENDED_LIMIT_INFORMATION (winnt.h): basic limits, I/O counters, four sizes.
        _fields_ = (
            ("per_process_time", ctypes.c_int64),
            ("per_job_time", ctypes.c_int64),
            ("flags", ctypes.c_uint32),
            ("least_working_set", ctypes.c_size_t),
            ("most_working_set", ctypes.c_size_t),
            ("most_processes", ctypes.c_uint32),
            ("affinity", ctypes.c_size_t),
            ("priority_class", ctypes.c_uint32),
            ("scheduling_class", ctypes.c_uint32),
            ("io_counters", ctypes.c_uint64 * 6),
            ("sizes", ctypes.c_size_t * 4),
        )

    kernel = _kernel32()
    job = kernel.CreateJobObjectW(None, None)
    if not job:
        return None
    limits = Limits(flags=_KILL_ON_JOB_CLOSE)
    bound = kernel.SetInformationJobObject(
        job, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
    ) and kernel.AssignProcessToJobObject(job, kernel.GetCurrentProcess())
    if not bound:
        kernel.CloseHandle(job)
        return None
    return job


def lock(handle: int) -> bool:
    """Lock an open file for this process; ``False`` where another holds it. The system frees it when we end."""
    try:
        if WINDOWS:
            import msvcrt

            os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def unlock(handle: int) -> None:
    """Free a lock of ours."""
    if WINDOWS:
        import msvcrt

        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_UN)


def _kernel32() -> Any:
    import ctypes
    from ctypes import c_void_p

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]
    for name in ("OpenProcess", "CreateJobObjectW", "GetCurrentProcess"):
        getattr(kernel, name).restype = c_void_p  # a handle is as wide as a pointer
    kernel.WaitForSingleObject.argtypes = [c_void_p, ctypes.c_uint32]
    kernel.CloseHandle.argtypes = [c_void_p]
    kernel.SetInformationJobObject.argtypes = [c_void_p, ctypes.c_int, c_void_p, ctypes.c_uint32]
    kernel.AssignProcessToJobObject.argtypes = [c_void_p, c_void_p]
    return kernel


def _waited(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it still runs after that time."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def _signal_tree(head: int, mark: str, number: int) -> None:
    """Signal the group and whoever else carries the mark; again for what was started meanwhile, when it is a kill."""
    if head <= 1:  # to kill(2) they mean our own group, and everything
        raise ValueError(head)
    asking = number == signal.SIGTERM
    for _ in range(1 if asking else 20):
        if not (asking and _PROC.is_dir()):  # else each is asked once, below
            with contextlib.suppress(OSError):  # nobody is left in it
                os.killpg(head, number)
        rest = tree(head, mark) - {os.getpid()}
        for pid in rest:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        if not rest:
            return
        time.sleep(0.01)


def _ended(pid: int) -> bool:
    """Whether it is only an entry that its parent has yet to collect, where ``/proc`` tells."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return _PROC.is_dir() and not (_PROC / str(pid)).exists()
    return stat[stat.rfind(b")") + 2 :][:1] in (b"Z", b"X")
