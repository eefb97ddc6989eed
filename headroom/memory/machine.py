"""What the machine offers beside its GPUs: RAM under a container's limit, /dev/shm, disks, and which system it is."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..contracts import Sentence, System, say

GIB = 2**30


@dataclass(frozen=True)
class Space:
    """How much of something there is, in GiB."""

    total_gib: float
    free_gib: float


@dataclass(frozen=True)
class Machine:
    """The machine as this process may use it; ``None`` is not known (of ``shm``: there is none on this system).

    ``ram`` is what a container's limit leaves where that is less than the machine has; ``ram_limited`` says so.
    """

    system: System | None
    ram: Space | None
    ram_limited: bool = False
    shm: Space | None = None
    notes: tuple[Sentence, ...] = ()


def read_machine(root: Path = Path("/"), platform: str = sys.platform) -> Machine:
    """The machine as it is now. Never raises: what cannot be read is ``None``, and a note says so."""
    system = which_system(root, platform)
    shm = space_at(root / "dev/shm") if system in ("linux", "wsl") and (root / "dev/shm").is_dir() else None
    if system not in ("linux", "wsl"):
        return _elsewhere(system)
    ram = _meminfo(root)
    limits = [*_cgroup_limits(root)]
    limited = bool(limits) and (ram is None or min(limit.total_gib for limit in limits) < ram.total_gib)
    spaces = [space for space in (ram, *limits) if space]
    if not spaces:
        return Machine(system, None, shm=shm, notes=(say("doctor.ram.unreadable"),))
    ram = Space(min(space.total_gib for space in spaces), min(space.free_gib for space in spaces))
    return Machine(system, ram, limited, shm)


def which_system(root: Path = Path("/"), platform: str = sys.platform) -> System | None:
    """Which system this is; ``None`` for one that Headroom does not know."""
    if platform == "win32":
        return "windows"
    if platform == "darwin":
        return "macos"
    if not platform.startswith("linux"):
        return None
    return "wsl" if "microsoft" in _read(root / "proc/sys/kernel/osrelease").lower() else "linux"


def space_at(path: Path) -> Space | None:
    """The disk that a path lies on, or would lie on once it is made; ``None`` where that cannot be read."""
    for place in (path.absolute(), *path.absolute().parents):
        try:
            usage = shutil.disk_usage(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return None
        return Space(usage.total / GIB, usage.free / GIB)
    return None


def _elsewhere(system: System | None) -> Machine:
    """Windows and macOS, by psutil, which ComfyUI brings."""
    try:
        import psutil
    except ImportError:
        return Machine(system, None, notes=(say("doctor.ram.no_psutil", python=sys.executable),))
    memory = psutil.virtual_memory()
    return Machine(system, Space(memory.total / GIB, memory.available / GIB))


def _meminfo(root: Path) -> Space | None:
    kib = {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", _read(root / "proc/meminfo"), re.M)}
    total, free = kib.get("MemTotal"), kib.get("MemAvailable", kib.get("MemFree"))
    return Space(total * 1024 / GIB, free * 1024 / GIB) if total and free is not None else None


def _cgroup_limits(root: Path) -> Iterator[Space]:
    """Every limit on this process's memory: its own group's and those of the groups above, of cgroup v2 and v1."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers == "":
            mount, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        # Inside a container the group may be named as the host sees it, and then only the mount itself is there.
        inside = PurePosixPath(*(part for part in PurePosixPath(group).parts if part not in ("/", "..")))
        for folder in (inside, *inside.parents):
            limit = _limit(mount / folder, *names)
            if limit:
                yield limit


def _limit(folder: Path, most: str, used: str, reclaimable: str) -> Space | None:
    """A group's limit and what is left of it; pages of files that the kernel can drop at once count as left."""
    limit, taken = _read(folder / most).strip(), _read(folder / used).strip()
    if not (limit.isdecimal() and taken.isdecimal()) or int(limit) >= 2**60:  # "max", and v1's way to say it
        return None
    cached = re.search(rf"^{reclaimable} (\d+)$", _read(folder / "memory.stat"), re.M)
    left = int(limit) - max(0, int(taken) - (int(cached[1]) if cached else 0))
    return Space(int(limit) / GIB, max(0, left) / GIB)


def _read(path: Path) -> str:
    """A file of /proc or /sys; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
