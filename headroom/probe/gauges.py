"""What a phase took at its worst: read from torch on a GPU, from the meter where tensors are counted, else host only.

A peak holds ``allocated_gib``, ``reserved_gib``, ``device_gib`` and ``host_gib``; None means not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from . import host_memory

GIB = 2**30
# The first card that is visible, whatever its number in the machine or its UUID: the one that accelerate takes.
CARD = 0
Peak = dict[str, "float | None"]
KEYS = ("allocated_gib", "reserved_gib", "device_gib", "host_gib")


@dataclass(frozen=True)
class Room:
    """What lies on the card now, and what can still be had, in GiB."""

    allocated_gib: float
    free_gib: float


class Gauge(Protocol):
    """Begin to watch; then ask for the peak since. ``now`` may be asked by another thread.

    ``room`` is None where it is not known.
    """

    def begin(self) -> None: ...

    def peak(self) -> Peak: ...

    def now(self) -> Peak: ...

    def room(self) -> Room | None: ...


class HostGauge:
    """Host memory alone: the largest of this process, or of it and its children where ``now`` saw more."""

    def __init__(self) -> None:
        self._seen_gib: float | None = None

    def begin(self) -> None:
        host_memory.forget_peak()
        self._seen_gib = None

    def peak(self) -> Peak:
        return _host(max(host_memory.peak_gib() or 0.0, self._seen_gib or 0.0) or None)

    def now(self) -> Peak:
        host = host_memory.tree_gib()
        self._seen_gib = max(host or 0.0, self._seen_gib or 0.0)
        return _host(host)

    def room(self) -> Room | None:
        return None


class CudaGauge(HostGauge):
    """torch's own statistics; what the card shows for the process is for one who can ask the driver."""

    def __init__(self, torch: ModuleType) -> None:
        super().__init__()
        self.cuda = torch.cuda
        self.cap_gib: float | None = None

    def cap(self, gib: float) -> None:
        """Let torch's allocator hold no more than this, what it has cached included. Makes the context."""
        self.cap_gib = max(0.0, gib)
        total = self.cuda.get_device_properties(CARD).total_memory / GIB
        self.cuda.set_per_process_memory_fraction(min(1.0, self.cap_gib / total), CARD)

    def begin(self) -> None:
        super().begin()
        # Before the first tensor there is nothing to forget, and asking would make the context.
        if self.cuda.is_initialized():
            self.cuda.reset_peak_memory_stats(CARD)

    def peak(self) -> Peak:
        if not self.cuda.is_initialized():
            return super().peak()
        return super().peak() | {
            "allocated_gib": round(self.cuda.max_memory_allocated(CARD) / GIB, 6),
            "reserved_gib": round(self.cuda.max_memory_reserved(CARD) / GIB, 6),
        }

    def now(self) -> Peak:
        if not self.cuda.is_initialized():
            return super().now()
        return super().now() | {
            "allocated_gib": round(self.cuda.memory_allocated(CARD) / GIB, 6),
            "reserved_gib": round(self.cuda.memory_reserved(CARD) / GIB, 6),
        }

    def room(self) -> Room | None:
        """What torch holds without using it can be had too; the cap ends both."""
        if not self.cuda.is_initialized():
            return None
        allocated, reserved = self.cuda.memory_allocated(CARD) / GIB, self.cuda.memory_reserved(CARD) / GIB
        free = self.cuda.mem_get_info(CARD)[0] / GIB + reserved - allocated
        return Room(allocated, free if self.cap_gib is None else min(free, self.cap_gib - allocated))


class Counted(Protocol):
    """What counts the bytes of tensors: those alive now, and the most since ``peak_bytes`` was last set."""

    live_bytes: int
    peak_bytes: int
    budget_bytes: int | None


class MeterGauge(HostGauge):
    """The meter's count. It knows no context and no fragmentation, so that all three are the same."""

    def __init__(self, meter: Counted) -> None:
        super().__init__()
        self.meter = meter

    def begin(self) -> None:
        super().begin()
        self.meter.peak_bytes = self.meter.live_bytes

    def peak(self) -> Peak:
        return super().peak() | dict.fromkeys(KEYS[:3], round(self.meter.peak_bytes / GIB, 9))

    def now(self) -> Peak:
        return super().now() | dict.fromkeys(KEYS[:3], round(self.meter.live_bytes / GIB, 9))

    def room(self) -> Room | None:
        live, budget = self.meter.live_bytes, self.meter.budget_bytes
        return None if budget is None else Room(live / GIB, (budget - live) / GIB)


def _host(gib: float | None) -> Peak:
    return dict.fromkeys(KEYS[:3]) | {"host_gib": None if gib is None else round(gib, 6)}


def worst(one: Peak, other: Peak) -> Peak:
    """The larger of two peaks, number by number."""
    both = {key: [value for value in (one.get(key), other.get(key)) if value is not None] for key in KEYS}
    return {key: max(values) if values else None for key, values in both.items()}
