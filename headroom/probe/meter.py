"""Without a GPU: count the bytes of live tensors as if they lay on a card, and run out of memory at a budget.

The card is ``cpu:0``, the host ``cpu``. A tensor itself says ``cpu`` in both cases, so a storage counts as one of the
card's when its device was asked for as ``cpu:0``, or when an operation made it from one of the card's. Context and
fragmentation are 0.
"""

from __future__ import annotations

GIB = 2**30
CARD = "cpu:0"
_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


class Meter:
    """Bytes alive now, and the most since ``peak_bytes`` was last set. Storages are told apart by a key."""

    def __init__(self, budget_bytes: int | None = None, error: type[Exception] = MemoryError) -> None:
        self.live_bytes = 0
        self.peak_bytes = 0
        self.budget_bytes = budget_bytes
        self.apart = True  # whether card and host can be told apart; else every tensor is one of the card's
        self._error = error
        self._sizes: dict[int, int] = {}

    def __contains__(self, key: int) -> bool:
        return key in self._sizes

    def add(self, key: int, size: int) -> bool:
        """Count a storage; False when it is counted already. Raises torch's error where it does not fit."""
        if key in self._sizes:
            return False
        if self.budget_bytes is not None and self.live_bytes + size > self.budget_bytes:
            raise self._error(message(size, self.budget_bytes, self.live_bytes))
        self._sizes[key] = size
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return True

    def drop(self, key: int) -> None:
        self.live_bytes -= self._sizes.pop(key, 0)


def message(size: int, budget: int, live: int) -> str:
    """What torch says when ``size`` bytes do not fit (c10/cuda/CUDACachingAllocator.cpp)."""
    return (
        f"CUDA out of memory. Tried to allocate {_text(size)}. GPU 0 has a total capacity of {_text(budget)} of which "
        f"{_text(budget - live)} is free. Including non-PyTorch memory, this process has {_text(live)} memory in use. "
        f"Of the allocated memory {_text(live)} is allocated by PyTorch, and 0 bytes is reserved by PyTorch but "
        "unallocated."
    )


def _text(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"
