"""After somebody unloaded models: watch until the card's free memory has come back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..contracts import Sentence, say
from . import budgeting
from .nvml import Gpu, GpuReading, read_gpus

_POLL_SECONDS = 0.1
_SETTLED_SECONDS = 2.0  # that free memory has not grown for: a program that ends gives back in one go
_GROWN_GIB = 0.05


@dataclass(frozen=True)
class Freed:
    """What was seen of a card: its free memory at first and at last (``None``: not told), after how long a wait.

    ``enough``: whether what was needed is free; ``None`` where nothing was asked for or the driver does not tell.
    """

    gpu: Gpu | None
    first_gib: float | None
    free_gib: float | None
    seconds: float
    enough: bool | None
    sentences: tuple[Sentence, ...] = ()


def wait_for_free(
    uuid: str | None = None,
    need_gib: float | None = None,
    most_seconds: float = 10.0,
    *,
    read: Callable[[], GpuReading] = read_gpus,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Freed:
    """Wait until so much of the card is free, else until no more becomes free; the card as a run would be given it.

    Raises BudgetError for a UUID that the driver does not know. Without a driver it returns at once.
    """
    begun = grown = clock()
    gpu = budgeting.card(read(), uuid)
    if gpu is None or gpu.free_gib is None:
        return Freed(gpu, None, None, 0.0, None)
    first = most = gpu.free_gib
    while (need_gib is None or gpu.free_gib < need_gib) and clock() < min(
        begun + most_seconds, grown + _SETTLED_SECONDS
    ):
        sleep(_POLL_SECONDS)
        now = budgeting.card(read(), gpu.uuid)
        if now is None or now.free_gib is None:  # the driver has gone away
            break
        gpu = now
        if now.free_gib > most + _GROWN_GIB:
            most, grown = now.free_gib, clock()
    free = gpu.free_gib or 0.0
    enough = None if need_gib is None else free >= need_gib
    return Freed(gpu, first, free, clock() - begun, enough, tuple(_said(gpu, first, free, need_gib)))


def _said(gpu: Gpu, first: float, free: float, need_gib: float | None) -> list[Sentence]:
    said = [say("freeing.came_back", name=gpu.name, freed=free - first, free=free)] if free > first + _GROWN_GIB else []
    if need_gib is not None and free < need_gib:
        said.append(say("freeing.not_enough", name=gpu.name, free=free, need=need_gib, used=budgeting.users(gpu)))
    return said
