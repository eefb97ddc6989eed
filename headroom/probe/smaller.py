"""The next smaller size of a preview that AI Toolkit can still make."""

from __future__ import annotations

from dataclasses import dataclass

# Half the frames, or half the area: one retry has to make a difference.
_SIDE = 0.5**0.5
_SMALLEST_SIDE = 64  # GenerateImageConfig makes nothing smaller (toolkit/config_modules.py)


@dataclass(frozen=True)
class Size:
    """A preview in pixels and frames; a still has one frame."""

    width: int
    height: int
    frames: int = 1


def smaller(size: Size, multiple: int, frame_step: int | None) -> Size | None:
    """Half the frames, else half the area; None where nothing smaller is legal.

    Sides are multiples of ``multiple``. Frames stay in step with what was asked (of 81 in steps of 4: 41); without a
    known step they are left alone.
    """
    if size.frames > 1 and frame_step:
        fewer = size.frames - frame_step * max(1, size.frames // (2 * frame_step))
        if fewer >= 1:
            return Size(size.width, size.height, fewer)
    width, height = (_side(side, multiple) for side in (size.width, size.height))
    return Size(width, height, size.frames) if (width, height) != (size.width, size.height) else None


def _side(side: int, multiple: int) -> int:
    floor = -(-_SMALLEST_SIDE // multiple) * multiple
    return min(side, max(floor, int(side * _SIDE) // multiple * multiple))
