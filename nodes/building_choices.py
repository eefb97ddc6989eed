"""What the widgets of the job-building nodes offer, and how their values are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..headroom import configs
from .errors import InputError

AS_IT_STARTS = "default"  # what AI Toolkit's form starts with for the architecture
SWITCH = [AS_IT_STARTS, "on", "off"]
TEXT_ENCODER = [AS_IT_STARTS, "keep", "cache", "unload"]
TEXT_WEIGHTS = [AS_IT_STARTS, "none", *configs.load("starting/choices")["quantization"]]
ADAPTER = " with recovery adapter"
WEIGHTS = [*TEXT_WEIGHTS, *(bits + ADAPTER for bits in configs.load("starting/choices")["adapters"])]
_LARGEST = 10.0
CONTROL_FOLDERS = ("control_folder", "control_folder_2", "control_folder_3")


class Given:
    """A node's values by their names. ``lists``: ComfyUI hands each over in a list, as to nodes that take lists."""

    def __init__(self, inputs: Mapping[str, Any], lists: bool = False) -> None:
        self._inputs = {name: value[0] if value else None for name, value in inputs.items()} if lists else inputs

    def text(self, name: str) -> str:
        """A text; empty where an older workflow has no such input, or a wire brings nothing yet."""
        value = self._inputs.get(name)
        return "" if value is None else str(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """A box that is ticked or not."""
        value = self._inputs.get(name)
        return default if value is None else bool(value)

    def number(self, name: str, unset: float | None = None) -> Any:
        """A number; ``None`` where it is absent or stands at the value that leaves it to AI Toolkit's form."""
        value = self._inputs.get(name)
        return None if value is None or value == unset else value

    def small(self, name: str) -> float | None:
        """A small number, written as people write one (0.0001, 1e-4); ``None`` as the form starts. Raises InputError.

        Early Nodes 2.0 show number widgets to three places alone.
        """
        value = self.text(name).strip() or AS_IT_STARTS
        if value == AS_IT_STARTS:
            return None
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= _LARGEST:
            raise InputError("small_number", input=name, value=value[:40])
        return number

    def switch(self, name: str) -> bool | None:
        """On, off, or as the form starts. Raises InputError."""
        chosen = self.choice(name, SWITCH)
        return None if chosen is None else chosen == "on"

    def choice(self, name: str, options: Sequence[str]) -> str | None:
        """One of the options; ``None`` as the form starts. Raises InputError: ComfyUI before 0.4 checks no combos."""
        value = self.text(name) or AS_IT_STARTS
        if value == AS_IT_STARTS:
            return None
        if value not in options:
            raise InputError("choice", input=name, value=value[:80], choices=options)
        return value
