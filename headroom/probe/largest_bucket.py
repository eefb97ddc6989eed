"""Before the first step, a dry one on the largest bucket: whether it fits is known at once, and nothing is learned.

AI Toolkit shuffles its batches, so the largest may come hundreds of steps later, and skips one that does not fit.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .batches import Batch, describe
from .channel import Channel
from .restoring import release

MODES = ("stop", "continue", "off")
# Bytes of state an optimizer keeps for each trained parameter after its first step, by a part of its class's name.
_STATE_BYTES = (("8bit", 2), ("adafactor", 0), ("lion", 4), ("sgd", 0), ("prodigy", 16), ("", 8))


class DoesNotFit(Exception):
    """The largest bucket ran out of memory; no RuntimeError, which AI Toolkit would take for a batch to skip."""


class LargestBucket:
    """The dry step. With enough memory the run is the same as without it, bit for bit."""

    def __init__(self, channel: Channel, mode: str, out_of_memory: Callable[..., str | None]) -> None:
        self._channel, self._mode, self._out_of_memory = channel, mode, out_of_memory

    def try_out(self, process: Any) -> None:
        """Raises ``DoesNotFit`` where the run is to stop then; with ``continue`` it is told and no more."""
        if self._mode == "off":
            return
        hindrance = _hindrance(process)
        if hindrance is not None:
            self._channel.note(f"the largest bucket was not tried first: {hindrance}")
            return
        message, failure = None, None
        given = Batch(None, 0, ())
        with _as_before(process):
            try:
                batch = _load(process)
                given = describe(batch)
                room = _room_for_state(process)
                process.train_single_accumulation(batch)
                batch.cleanup()
            except Exception as error:
                message = self._out_of_memory(error, "forward", bucket=given.bucket, files=given.files)
                failure = f"{type(error).__name__}: {error}" if message is None else None
            batch = room = None  # noqa: F841
        if failure is not None:
            # What is wrong with it, the run will tell when it comes to it, if it ends the run at all.
            self._channel.note(f"the largest bucket was not tried first: {failure}")
        elif message is None:
            self._channel.note(f"the largest bucket fits: {_name(given)}")
        elif self._mode == "stop":
            raise DoesNotFit(f"The largest bucket ({_name(given)}) does not fit. {message}")
        else:
            self._channel.note(f"the largest bucket does not fit: {_name(given)}; the run goes on as it was asked to")


def _name(batch: Batch) -> str:
    size = "of unknown size" if batch.bucket is None else "x".join(str(side) for side in batch.bucket)
    return f"{size}, batch of {batch.items}"


def _hindrance(process: Any) -> str | None:
    """Why a dry step cannot be made or would teach something; None where it can."""
    if not hasattr(process, "train_single_accumulation"):
        return "this AI Toolkit has no train_single_accumulation"
    if not any(_batches(process)):
        return "the dataset has no buckets"
    groups = process.optimizer.param_groups
    if any(getattr(weight, "_post_accumulate_grad_hooks", None) for group in groups for weight in group["params"]):
        return "this optimizer works inside the backward pass"
    stages = getattr(process.sd, "trainable_multistage_boundaries", None)
    if getattr(process.sd, "is_multistage", False) and process.current_boundary_index not in (stages or ()):
        return "the model begins with a stage that is not trained"
    return None


def _batches(process: Any) -> Iterator[tuple[int, Any, Any, int]]:
    """(pixels, loader, dataset, index) of every batch of the datasets."""
    for loader in (getattr(process, "data_loader", None), getattr(process, "data_loader_reg", None)):
        for dataset in getattr(getattr(loader, "dataset", None), "datasets", ()):
            for index, members in enumerate(getattr(dataset, "batch_indices", ())):
                given = describe(_Files([dataset.file_list[member] for member in members]))
                if given.bucket is not None:
                    width, height, frames = given.bucket
                    yield width * height * frames * given.items, loader, dataset, index


class _Files:
    def __init__(self, file_items: list[Any]) -> None:
        self.file_items = file_items


def _load(process: Any) -> Any:
    _, loader, dataset, index = max(_batches(process), key=lambda batch: batch[0])
    return loader.collate_fn(dataset[index])


def _room_for_state(process: Any) -> Any:
    """A tensor as large as what the optimizer will keep beside the largest bucket from its first step on."""
    optimizer = getattr(process.optimizer, "optimizer", process.optimizer)
    if optimizer.state:
        return None
    name = type(optimizer).__name__.lower()
    each = next(size for part, size in _STATE_BYTES if part in name)
    count = sum(weight.numel() for group in optimizer.param_groups for weight in group["params"])
    torch = sys.modules["torch"]
    return torch.empty(each * count, dtype=torch.uint8, device=process.device_torch)


@contextmanager
def _as_before(process: Any) -> Iterator[None]:
    """No gradient, no number drawn, no log of the dry step is left."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    drawn = random.getstate(), torch.get_rng_state()
    drawn_numpy = None if numpy is None else numpy.random.get_state()
    drawn_cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    logs = dict(getattr(process, "additional_logs", None) or {})
    try:
        yield
    finally:
        process.optimizer.zero_grad(set_to_none=True)
        release()
        random.setstate(drawn[0])
        torch.set_rng_state(drawn[1])
        if numpy is not None:
            numpy.random.set_state(drawn_numpy)
        if drawn_cuda is not None:
            torch.cuda.set_rng_state_all(drawn_cuda)
        if hasattr(process, "additional_logs"):
            process.additional_logs = logs
