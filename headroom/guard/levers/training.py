"""Levers on what one training step holds: gradient checkpointing and the batch size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..situation import Situation, whole
from .lever import Lever, Move


class GradientCheckpointing(Lever):
    """Recompute activations in the backward pass instead of keeping them."""

    name = "gradient_checkpointing"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        if at.get("train.gradient_checkpointing") is False:
            yield (self.set("train.gradient_checkpointing", True),)


class BatchSize(Lever):
    """One item at a time; gradient accumulation keeps the effective batch.

    Sources: toolkit/data_loader.py get_dataloader_from_datasets (a dataset's own size wins), toolkit/config_modules.py
    TrainConfig (gradient_accumulation and gradient_accumulation_steps exclude each other).
    """

    name = "batch_size"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        if at.get("train.single_item_batching") is True:
            return
        sizes = {path: size for path in _places(at) if (size := whole(at.get(path))) is not None and size > 1}
        if not sizes:
            return
        largest = max(sizes.values())
        accumulation = whole(at.get("train.gradient_accumulation"))
        why, edits = "without_accumulation", []
        if accumulation is not None and self._may_accumulate(at):
            more = accumulation * largest
            why = "with_accumulation"
            edits = [
                self.set("train.gradient_accumulation", more, "accumulation", companion=True, old=largest, new=more)
            ]
        yield (*(self.set(path, 1, why, old=size) for path, size in sizes.items()), *edits)

    def _may_accumulate(self, at: Situation) -> bool:
        fused = str(at.get("train.optimizer")).lower() in self.entry["optimizers_that_cannot_accumulate"]
        return not fused and at.get("train.gradient_accumulation_steps") == 1


def _places(at: Situation) -> Iterator[str]:
    """The keys that decide a batch: each dataset's own size, and the trainer's where a dataset has none."""
    own = [f"datasets[{index}].batch_size" for index in at.datasets]
    written = [path for path in own if at.settings.written(path) is not None]
    if len(written) < len(own) or not own:
        yield "train.batch_size"
    yield from written
