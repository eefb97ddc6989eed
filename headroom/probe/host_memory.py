"""The most host memory this process held since it was last asked to forget."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

_GIB_PER_KIB = 2.0**-20


def forget_peak() -> None:
    """Let the peak begin anew, where the system can (Linux: 5 in ``clear_refs``); elsewhere it is the whole run's."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_gib() -> float | None:
    """The largest resident set, in GiB; None on a system that does not tell (Windows)."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * _GIB_PER_KIB
    try:
        import resource
    except ImportError:
        return None
    per_unit = 2.0**-30 if sys.platform == "darwin" else _GIB_PER_KIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * per_unit
