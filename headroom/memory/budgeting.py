"""A budget from what the driver says of a card, and what of a run went above one."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..contracts import Budget, Sentence, say
from ..report.wording import words
from .nvml import Gpu, GpuReading

# Left to the screen, and to what a program beside the run takes for its kernels once it computes.
RESERVE_GIB = 0.5


class BudgetError(ValueError):
    """There is no such card, or no room for a run; ``sentence`` says which, and the way out."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(words(sentence))
        self.sentence = sentence


def visible(reading: GpuReading, environment: Mapping[str, str] = os.environ) -> tuple[Gpu, ...]:
    """The cards that a program started with this environment may use, in its order.

    ``CUDA_VISIBLE_DEVICES`` as the CUDA C++ Programming Guide has it: numbers, or UUIDs that may be cut short; what
    follows the first that names no card is hidden too. A number is taken in the order of the bus, as NVML counts:
    CUDA's own order (``FASTEST_FIRST``) differs where the cards do, unless ``CUDA_DEVICE_ORDER`` is ``PCI_BUS_ID``.
    """
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return reading.gpus
    found: list[Gpu] = []
    for entry in map(str.strip, named.split(",")):
        gpu = next((gpu for gpu in reading.gpus if entry and _names(entry, gpu)), None)
        if gpu is None:
            break
        found.append(gpu)
    return tuple(found)


def card(reading: GpuReading, uuid: str | None = None) -> Gpu | None:
    """The card of that UUID, else the first that may be used; ``None`` where there is none or the driver tells none.

    Raises BudgetError for a UUID that is not among the cards that the driver tells.
    """
    if uuid is None:
        return next(iter(visible(reading)), None)
    found = next((gpu for gpu in reading.gpus if gpu.uuid == uuid), None)
    if found is None and reading.gpus:
        there = [f"{gpu.name} ({gpu.uuid})" for gpu in reading.gpus]
        raise BudgetError(say("budget.no_such_gpu", gpu=uuid, gpus=there))
    return found


def default_budget(reading: GpuReading, uuid: str | None = None, reserve_gib: float = RESERVE_GIB) -> Budget:
    """What is free on the card now, less a reserve; no cap where there is no card or its free memory is not told.

    Raises BudgetError for an unknown UUID, and where the card has no room left.
    """
    gpu = card(reading, uuid)
    if gpu is None or gpu.free_gib is None:
        return Budget(gpu=gpu.uuid if gpu else uuid)
    if gpu.free_gib <= reserve_gib:
        told = {"name": gpu.name, "free": gpu.free_gib, "reserve": reserve_gib, "used": users(gpu)}
        raise BudgetError(say("budget.no_room", **told))
    return Budget(vram_gib=gpu.free_gib - reserve_gib, gpu=gpu.uuid)


def budget_of_card(
    gpu: Gpu,
    *,
    gib: float | None = None,
    percent: float | None = None,
    reserve_gib: float = 0.0,
    host_ram_gib: float | None = None,
    enforce: bool = True,
) -> Budget:
    """A budget of so many GiB, or percent of the whole card, and never into what is reserved for others.

    It speaks of the whole card, not of what is free now: who runs models beside it unloads them before the run begins.
    Raises BudgetError where nothing is left of it, or percent are asked of a card whose size is not told.
    """
    if percent is not None:
        if gpu.total_gib is None:
            raise BudgetError(say("budget.no_total", name=gpu.name))
        of_card = gpu.total_gib * percent / 100
        gib = of_card if gib is None else min(gib, of_card)
    if gpu.total_gib is not None:
        most = gpu.total_gib - reserve_gib
        gib = most if gib is None else min(gib, most)
    if gib is not None and gib <= 0:
        raise BudgetError(say("budget.nothing_left", name=gpu.name, reserve=reserve_gib))
    return Budget(vram_gib=gib, host_ram_gib=host_ram_gib, gpu=gpu.uuid, enforce=enforce)


def users(gpu: Gpu) -> Sentence | list[str]:
    """Who uses a card, to be said."""
    return [f"{each.name or '?'} ({each.pid})" for each in gpu.processes or ()] or say("budget.nobody_listed")


def short_of_room(budget: Budget, gpu: Gpu | None) -> tuple[Sentence, ...]:
    """A warning where the card has less free now than the budget grants."""
    if gpu is None or gpu.free_gib is None or budget.vram_gib is None or gpu.free_gib >= budget.vram_gib:
        return ()
    return (say("budget.less_free", name=gpu.name, free=gpu.free_gib, budget=budget.vram_gib),)


def above(budget: Budget, peaks: Mapping[str, tuple[float | None, float | None]]) -> tuple[Sentence, ...]:
    """The phases whose (card, host) peak in GiB went above the budget."""
    caps = (("vram", budget.vram_gib), ("host_ram", budget.host_ram_gib))
    return tuple(
        say(f"budget.above.{what}", phase=say(f"stage.{phase}"), peak=peak, budget=cap)
        for phase, pair in peaks.items()
        for (what, cap), peak in zip(caps, pair, strict=True)
        if cap is not None and peak is not None and peak > cap
    )


def _names(entry: str, gpu: Gpu) -> bool:
    return gpu.index == int(entry) if entry.isdecimal() else gpu.uuid.startswith(entry)
