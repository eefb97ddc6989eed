"""What a training step was given, for the reader of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Batch:
    """The largest bucket of a step ([width, height, frames] in pixels), how many items came in it, and all files."""

    bucket: tuple[int, int, int] | None
    items: int
    files: tuple[str, ...]


def describe(batch: Any) -> Batch:
    """A ``DataLoaderBatchDTO`` or a list of them (gradient accumulation), as ``hook_train_loop`` gets it."""
    batches = batch if isinstance(batch, Sequence) else [batch]
    largest: tuple[int, int, int] | None = None
    items, pixels, files = 0, -1, []
    for each in batches:
        entries = list(getattr(each, "file_items", None) or [])
        files += [str(getattr(entry, "path", "")) for entry in entries]
        size = _bucket(entries[0]) if entries else None
        if size is not None and size[0] * size[1] * size[2] * len(entries) > pixels:
            largest, items, pixels = size, len(entries), size[0] * size[1] * size[2] * len(entries)
    return Batch(largest, items, tuple(files))


def _bucket(entry: Any) -> tuple[int, int, int] | None:
    """A ``FileItemDTO``'s size after cropping to its bucket."""
    width, height = getattr(entry, "crop_width", None), getattr(entry, "crop_height", None)
    return (int(width), int(height), int(getattr(entry, "num_frames", 1) or 1)) if width and height else None
