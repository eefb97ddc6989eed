"""One run a GPU, across programs and users of a machine: a lock of the system on a file named for the GPU's UUID.

The system frees it when the program that holds it ends, however it ends; the file stays and means nothing by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import processes

_TRIES = 10
_TRY_SECONDS = 0.05
_LONGEST_TEXT = 4096


@dataclass(frozen=True)
class Holder:
    """Who holds a GPU: process id, the run's name, and when it began (seconds since 1970)."""

    pid: int
    run: str
    since: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class GpuBusy(Exception):
    """Another run holds the GPU; ``holder`` is ``None`` where it could not be read."""

    def __init__(self, holder: Holder | None) -> None:
        super().__init__(holder)
        self.holder = holder


class GpuLock:
    """A lock that is held."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def release(self) -> None:
        """Free the GPU; again does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.ftruncate(handle, 0)
            processes.unlock(handle)
            os.close(handle)


def default_folder() -> Path:
    """A place that all users of the machine share, outside of all others that Headroom writes to.

    A GPU belongs to the machine, not to a store of runs or a user's data; with the files' names nothing is told but a
    UUID, in them a process id and a run's name while it runs.
    """
    if processes.WINDOWS:
        return Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData"), "headroom", "locks")
    return Path("/tmp/headroom-locks")  # not TMPDIR: that may be each user's own


def acquire(gpu: str, run: str, folder: Path | None = None) -> GpuLock:
    """Hold the GPU for a run. Raises GpuBusy, and OSError where the place cannot be used."""
    handle = _open(_file(gpu, folder), create=True)
    for _ in range(_TRIES):  # somebody may just be asking who holds it
        if processes.lock(handle):
            text = json.dumps(Holder(os.getpid(), run, time.time()).as_dict()).encode()
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, text)
            return GpuLock(handle)
        time.sleep(_TRY_SECONDS)
    try:
        raise GpuBusy(_read(handle))
    finally:
        os.close(handle)


def holder(gpu: str, folder: Path | None = None) -> Holder | None:
    """Who holds the GPU now; ``None`` when nobody does. Raises GpuBusy(None) when it is held by one unknown."""
    try:
        handle = _open(_file(gpu, folder), create=False)
    except FileNotFoundError:
        return None
    try:
        if processes.lock(handle):
            processes.unlock(handle)
            return None
        found = _read(handle)
        if found is None:
            raise GpuBusy(None)
        return found
    finally:
        os.close(handle)


def _file(gpu: str, folder: Path | None) -> Path:
    return (folder or default_folder()) / (re.sub(r"[^A-Za-z0-9-]", "_", gpu)[:100] + ".lock")


def _open(path: Path, create: bool) -> int:
    """The lock's file, usable by every user; a link in its place is refused."""
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags)  # first as it is: Linux forbids O_CREAT on another user's file in a shared folder
    except FileNotFoundError:
        if not create:
            raise
    made = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    if made and not processes.WINDOWS:
        path.parent.chmod(0o1777)
    handle = os.open(path, flags | os.O_CREAT, 0o666)
    with contextlib.suppress(PermissionError):  # another user made it in between
        path.chmod(0o666)  # whatever the umask
    return handle


def _read(handle: int) -> Holder | None:
    os.lseek(handle, 0, os.SEEK_SET)
    try:
        data = json.loads(os.read(handle, _LONGEST_TEXT))
        return Holder(int(data["pid"]), str(data["run"]), float(data["since"]))
    except (ValueError, TypeError, KeyError, OSError):
        return None
