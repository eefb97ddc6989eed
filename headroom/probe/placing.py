"""The card of a machine without one: accelerate is told that its device is ``cpu:0``, where the host is ``cpu``."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any


def place(module: ModuleType, device: Any, placed: Callable[[], None]) -> None:
    """Wrap ``get_accelerator`` of ``toolkit.accelerator``; ``placed`` is called once there is an accelerator."""
    original = getattr(module, "get_accelerator", None)
    if original is None:
        return

    def get_accelerator() -> Any:
        accelerator = original()
        if accelerator.device != device:
            _tell(accelerator, device)
            placed()
        return accelerator

    module.get_accelerator = get_accelerator  # type: ignore[attr-defined]


def _tell(accelerator: Any, device: Any) -> None:
    state = getattr(accelerator, "state", None)
    if state is None:
        accelerator.device = device
        return
    from accelerate import PartialState  # type: ignore[import-not-found]

    # Each new AcceleratorState takes its device from the PartialState.
    PartialState().device = state.device = device
