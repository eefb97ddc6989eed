"""The environment that a trainer runs in: of ours, what means something to it, and its own."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..contracts import System
from ..memory.nvml import Gpu

# Of the Python and the allocator that we run in; they mean nothing to AI Toolkit's, or harm it.
_FOREIGN = (
    "PYTHONHOME",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
)
_EXPANDABLE = "expandable_segments:True"


def surroundings(
    gpu: str | None,
    card: Gpu | None,
    system: System | None,
    hf_token: str | None = None,
    ours: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """The trainer's environment: pinned to the GPU of that UUID, ``card`` where the driver tells of it."""
    own = {name: value for name, value in ours.items() if name not in _FOREIGN}
    own |= {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
    if gpu:
        own |= {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if expands(card, system):
        # The second name is the older one; torch before 2.9 knows no other, later it reads the first where both stand.
        own |= {"PYTORCH_ALLOC_CONF": _EXPANDABLE, "PYTORCH_CUDA_ALLOC_CONF": _EXPANDABLE}
    if hf_token:
        own["HF_TOKEN"] = hf_token
    return own


def expands(card: Gpu | None, system: System | None) -> bool:
    """Whether torch's allocator should grow its segments, so that buckets of many sizes do not break the memory up.

    It needs the driver's calls for virtual memory: builds for Windows and ROCm are made without them and only warn
    (c10/cuda/CUDAAllocatorConfig.h, PYTORCH_C10_DRIVER_API_SUPPORTED; torch's CUDA notes, "expandable_segments"), on
    WSL and Jetson they fail at run time. So: Linux itself, and a card of NVIDIA's with memory of its own, whose size
    the driver then tells. A cap holds with it as without: it is tested before either kind of segment grows
    (c10/cuda/CUDACachingAllocator.cpp, alloc_block).
    """
    return system == "linux" and card is not None and card.total_gib is not None
