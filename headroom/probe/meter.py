"""Without a GPU: count the bytes of live tensors as if they lay on a card, and run out of memory at a budget.

Card and host are one here: every tensor made in the main thread counts, also one that a GPU run would keep in host
memory. So low VRAM and offloading show no effect under this meter. Context and fragmentation are 0.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

GIB = 2**30
_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


class Meter:
    """Bytes alive now, and the most since ``peak_bytes`` was last set. Storages are told apart by a key."""

    def __init__(self, budget_bytes: int | None = None, error: type[Exception] = MemoryError) -> None:
        self.live_bytes = 0
        self.peak_bytes = 0
        self.budget_bytes = budget_bytes
        self._error = error
        self._sizes: dict[int, int] = {}

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


def counting(torch: ModuleType, meter: Meter) -> AbstractContextManager[Any]:
    """A dispatch mode of torch that tells the meter of every storage an operation returns, and of its end."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    process = os.getpid()
    plain = torch._C._disabled_torch_dispatch_impl
    ends: dict[int, weakref.ref[Any]] = {}

    def count(tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if not meter.add(key, storage.nbytes()):
            return

        def end(_: Any) -> None:
            ends.pop(key, None)
            meter.drop(key)

        ends[key] = weakref.ref(storage, end)

    class Counting(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, operation: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if any(kind.__torch_dispatch__ != plain for kind in types):
                # Quantized weights are tensors of tensors; they do the operation on what they hold, which is counted.
                return NotImplemented
            result = operation(*args, **(kwargs or {}))
            if os.getpid() != process:
                return result  # a data loader's worker, forked with the mode on
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.device.type == "cpu":
                    count(leaf)
            return result

    return Counting()
