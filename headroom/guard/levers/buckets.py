"""The lever on resolution: the largest bucket goes first, since the largest decides the peak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..situation import Situation, whole
from .lever import Lever, Move


class LargestBucket(Lever):
    """Drop the largest resolution of a list, or step a single one down.

    ``least``: nothing goes below it. ``cap``: everything above it goes at once. ``controls``: shrink the control images
    of an edit model instead, which are otherwise about a megapixel each whatever the bucket.
    Source: toolkit/config_modules.py preprocess_dataset_raw_config (one dataset for each value of a list).
    """

    name = "largest_bucket"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        if how.get("controls"):
            yield from self._smaller_controls(at)
            return
        buckets = {f"datasets[{index}].resolution": _sizes(at, index) for index in at.datasets}
        if at.architecture.kind == "audio" or not buckets or not all(buckets.values()):
            return
        largest = max(max(sizes) for sizes in buckets.values())
        most = min(how.get("cap", largest - 1), largest - 1)
        edits = []
        for path, sizes in buckets.items():
            if max(sizes) <= most:
                continue
            kept = [size for size in sizes if size <= most]
            if not kept or max(kept) < how["least"]:
                steps = [step for step in self.entry["steps"] if how["least"] <= step <= most]
                if not steps:
                    return
                kept.append(max(steps))
            new = kept if isinstance(at.get(path), list) else kept[-1]
            edits.append(self.set(path, new, old=max(sizes), new=max(kept)))
        yield tuple(edits)

    def _smaller_controls(self, at: Situation) -> Iterator[Move]:
        path = "model.model_kwargs.match_target_res"
        controlled = any(
            at.settings.written(f"datasets[{index}].control_path{which}")
            for index in at.datasets
            for which in ("", "_1", "_2", "_3")
        )
        if controlled and at.architecture.effects.get("match_target_res") and at.settings.written(path) is not True:
            yield (self.set(path, True, "controls"),)


def _sizes(at: Situation, index: int) -> list[int]:
    """A dataset's resolutions as whole numbers; empty where one is none."""
    value = at.get(f"datasets[{index}].resolution")
    values = value if isinstance(value, list) else [value]
    sizes = [whole(each) for each in values]
    return [] if None in sizes else [size for size in sizes if size is not None]
