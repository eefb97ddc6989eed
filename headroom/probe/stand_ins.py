"""What AI Toolkit asks of ``torch.cuda`` even where there is no driver."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any


def stand_in_for_cuda(torch: ModuleType) -> bool:
    """Answer the three calls AI Toolkit makes without a driver; True where they were needed.

    Importing one of its architectures asks for the device's warp size, and a skipped batch calls ``ipc_collect``.
    """
    if torch.cuda.is_available():
        return False
    properties = SimpleNamespace(name="cpu", warp_size=32, total_memory=0, major=0, minor=0, multi_processor_count=1)

    def current_device() -> int:
        return 0

    def get_device_properties(device: Any = None) -> SimpleNamespace:
        return properties

    def ipc_collect() -> None:
        return None

    torch.cuda.current_device = current_device
    torch.cuda.get_device_properties = get_device_properties
    torch.cuda.ipc_collect = ipc_collect
    return True
