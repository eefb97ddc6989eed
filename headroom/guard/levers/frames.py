"""The lever on video: frames multiply every token count, in training and in previews."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..architectures import FrameGrid
from ..situation import Situation, whole
from .lever import Edit, Lever, Move
from .preview_sizes import limit_previews


class Frames(Lever):
    """Fewer frames in every dataset that has more, always a count the model's VAE takes.

    One step of the grid would free a few percent: a move keeps a share (``keep``) or, with ``cap``, a conservative
    count; ``least``: nothing goes below it.
    Where the failure may have been a preview, the previews follow. Source: toolkit/dataloader_mixins.py
    (auto_frame_count takes as many frames as a clip has; a fixed count is not checked there).
    """

    name = "frames"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        grid = at.architecture.frames
        fixed, automatic = _datasets(at)
        if grid is None or not (fixed or automatic):
            return
        cap = self.entry["cap"] if how.get("cap") else None
        target = self._usual(at, grid)
        if not automatic:
            target = grid.fewer(max(fixed.values()), self.entry["keep"], cap, how.get("least", 0))
        if target is None:
            return
        edits: list[Edit] = []
        for path in automatic:
            edits.append(self.set(f"{path}.auto_frame_count", False, "fixed", new=target))
            if at.get(f"{path}.num_frames") != target:
                edits.append(self.set(f"{path}.num_frames", target, "fixed", new=target))
        for path, count in fixed.items():
            if count > target:
                edits.append(self.set(f"{path}.num_frames", target, old=count, new=target))
        if "preview" in at.phases:
            for path, new in limit_previews(at, target).items():
                edits.append(self.set(path, new, "previews", companion=True, new=target))
        yield tuple(edits)

    def _usual(self, at: Situation, grid: FrameGrid) -> int | None:
        """The count for datasets whose clips decided so far: what the form starts with, none above the cap."""
        start = at.architecture.starts_with("datasets[].num_frames")
        usual = start if start > 1 else self.entry["cap"]
        return max(grid.at_most(min(usual, self.entry["cap"])), grid.shortest_clip)


def _datasets(at: Situation) -> tuple[dict[str, int], list[str]]:
    """The datasets of clips: those with a fixed count, and those where each clip's length decides."""
    fixed: dict[str, int] = {}
    automatic = []
    for index in at.datasets:
        path = f"datasets[{index}]"
        count = whole(at.get(f"{path}.num_frames"))
        if at.get(f"{path}.auto_frame_count") is True:
            automatic.append(path)
        elif count is not None and count > 1:
            fixed[path] = count
    return fixed, automatic
