"""Host memory: what this process held at most since it was last asked to forget, and what it and its children hold."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

_GIB = 2.0**-30
_GIB_PER_KIB = 2.0**-20


def forget_peak() -> None:
    """Let the peak begin anew, where the system can (Linux: 5 in ``clear_refs``); elsewhere it is the whole run's."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_gib() -> float | None:
    """The largest resident set, in GiB; None on a system that does not tell (Windows)."""
    with contextlib.suppress(OSError, StopIteration):
        return _kib("self/status", "VmHWM:") * _GIB_PER_KIB
    try:
        import resource
    except ImportError:
        return None
    per_unit = _GIB if sys.platform == "darwin" else _GIB_PER_KIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * per_unit


def tree_gib() -> float | None:
    """What this process and its children hold now, in GiB: of a child (a data loader's worker) only what is its own.

    Without ``/proc`` psutil is asked, which comes with AI Toolkit's accelerate; None where neither is there.
    """
    try:
        own = _kib("self/status", "VmRSS:")
    except (OSError, StopIteration):
        return _tree_by_psutil()
    return (own + sum(_private_kib(child) for child in _descendants(os.getpid()))) * _GIB_PER_KIB


def _kib(file: str, *names: str) -> int:
    lines = Path("/proc", file).read_text(encoding="ascii", errors="replace").splitlines()
    found = [int(line.split()[1]) for line in lines if line.startswith(names)]
    if not found:
        raise StopIteration
    return sum(found)


def _private_kib(process: int) -> int:
    try:
        return _kib(f"{process}/smaps_rollup", "Private_")
    except (OSError, StopIteration):
        return 0  # it has ended


def _descendants(process: int) -> list[int]:
    found: list[int] = []
    for thread in _children_files(process):
        with contextlib.suppress(OSError, ValueError):
            for child in map(int, (thread / "children").read_text(encoding="ascii").split()):
                found += [child, *_descendants(child)]
    return found


def _children_files(process: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return []


def _tree_by_psutil() -> float | None:
    try:
        import psutil  # type: ignore[import-untyped]
    except ImportError:
        return None
    own = psutil.Process()
    total = own.memory_info().rss
    for child in own.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += child.memory_full_info().uss
    return float(total) * _GIB
