"""The lever on previews: smaller, fewer frames first where they are video, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..situation import Situation
from .lever import Lever, Move
from .preview_sizes import limit_previews, most_frames, most_pixels


class Sampling(Lever):
    """Previews take memory by their size and frames; their number and steps take time.

    ``to``: ``smaller`` (``least_side``, ``least_frames``: nothing goes below; ``cap``: to conservative sizes at once),
    ``tiled`` (the decode, where the model can), ``off`` (``unseen``: if the job at hand does not show its previews,
    as an excerpt or another program's). Sources: jobs/process/BaseSDTrainProcess.py run (disable_sampling beats
    every other sampling key; skip_first_sample does not skip a ``first_sample`` section).
    """

    name = "sampling"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        if at.get("train.disable_sampling") is True:
            return
        if how["to"] == "tiled":
            yield from self._tiled(at)
        elif how["to"] == "smaller":
            yield from self._smaller(at, how.get("cap", False), {**self.entry["least"], **how})
        elif not at.previews if how.get("unseen") else at.previews or at.stage != "unknown":
            yield (self.set("train.disable_sampling", True, "off"),)
            skippable = at.stage == "baseline_sample" and not at.settings.has("first_sample")
            if skippable and at.get("train.skip_first_sample") is False:
                yield (self.set("train.skip_first_sample", True, "skip"),)

    def _smaller(self, at: Situation, cap: bool, least: Mapping[str, int]) -> Iterator[Move]:
        frames = pixels = None
        if at.architecture.frames is not None and most_frames(at) > 1:
            most = self.entry["cap"]["frames"] if cap else None
            frames = at.architecture.frames.fewer(
                most_frames(at), self.entry["keep_frames"], most, least["least_frames"]
            )
        if at.architecture.kind != "audio" and (cap or frames is None):
            pixels = most_pixels(at) * self.entry["keep_pixels"]
            if cap:
                pixels = min(pixels, self.entry["cap"]["side"] ** 2)
        edits = limit_previews(at, frames, pixels, least["least_side"]) or limit_previews(at, frames)
        if edits:
            yield tuple(self.set(path, new, _why(path)) for path, new in edits.items())

    def _tiled(self, at: Situation) -> Iterator[Move]:
        path = "model.model_kwargs.vae_tiling"
        useful = at.architecture.effects.get("vae_tiling") and at.get("model.low_vram") is False
        if useful and at.inside == "decode" and at.settings.written(path) is not True:
            yield (self.set(path, True, "tiled"),)


def _why(path: str) -> str:
    key = path.rpartition(".")[2]
    return {"num_frames": "frames", "width": "size", "height": "size"}.get(key, "prompt")
