"""New sizes for the previews of a job, written where each size is decided."""

from __future__ import annotations

import math
from typing import Any

from ...job import Preview, prompt_flags, with_flags
from ..situation import Situation

_SIDES = ("width", "height")


def most_frames(at: Situation) -> int:
    return max((preview.num_frames for preview in at.previews), default=1)


def most_pixels(at: Situation) -> int:
    return max((preview.width * preview.height for preview in at.previews), default=0)


def limit_previews(
    at: Situation, frames: int | None = None, pixels: float | None = None, least_side: int = 64
) -> dict[str, Any]:
    """The edits, path -> new value, after which no preview has more frames or pixels, its shape kept.

    They are made one after another, so the largest decides the peak. A size is decided by an entry's own key, the
    global one, or a flag in the prompt's text, which beats both (toolkit/config_modules.py GenerateImageConfig); a key
    that several share takes the smallest size that one of them needs. Empty where a side would get shorter than
    ``least_side``, or a prompt cannot be rewritten.
    """
    edits: dict[str, Any] = {}
    for preview in at.previews:
        wanted: dict[str, int] = {}
        if frames is not None and preview.num_frames > frames:
            wanted["num_frames"] = frames
        if pixels is not None and preview.width * preview.height > pixels:
            sides = _fit(preview, pixels, at.architecture.divisible_by)
            if min(sides.values()) < least_side:
                return {}
            wanted.update((side, size) for side, size in sides.items() if size < getattr(preview, side))
        for size, value in wanted.items():
            path = preview.decided_by[size]
            old = edits.get(path, at.get(path))
            if isinstance(old, str):
                edits[path] = with_flags(old, {size: value})
                if prompt_flags(edits[path]).get(size) != value:
                    return {}
            else:
                edits[path] = min(edits.get(path, value), value)
    return edits


def _fit(preview: Preview, pixels: float, multiple: int) -> dict[str, int]:
    """The sides of the same shape within so many pixels, on the model's multiple."""
    factor = math.sqrt(pixels / (preview.width * preview.height))
    return {side: int(getattr(preview, side) * factor + 1e-6) // multiple * multiple for side in _SIDES}
