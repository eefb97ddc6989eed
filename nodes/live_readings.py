"""What a budget node says of its card while nobody runs anything: what is free now, and what the budget then is."""

from __future__ import annotations

from typing import Any

from ..headroom.contracts import Budget, Sentence, say
from ..headroom.memory.budgeting import short_of_room
from ..headroom.memory.nvml import Gpu, GpuReading
from ..headroom.report.wording import words
from .amounts import budget_said, size


def readings(reading: GpuReading, gpu: Gpu | None, budget: Budget | None, lang: str) -> dict[str, Any]:
    """``now``: the card and what is free on it, or that there is none; ``budget``: what a run may take of it;
    ``warning``: where less is free; ``used_by``: who uses the card, and what the driver does not tell.
    """
    missing = reading.notes if gpu is None else ()
    used = [_used(process.name, process.pid, process.used_gib) for process in (gpu.processes or () if gpu else ())]
    return {
        "now": words(_now(gpu), lang),
        "budget": budget and words(say("live.budget", budget=budget_said(budget)), lang),
        "warning": " ".join(words(each, lang) for each in (*(short_of_room(budget, gpu) if budget else ()), *missing)),
        "used_by": [words(each, lang) for each in (*used, *(() if gpu is None else reading.notes))],
    }


def _now(gpu: Gpu | None) -> Sentence:
    if gpu is None:
        return say("live.no_gpu")
    if gpu.free_gib is None or gpu.total_gib is None:
        return say("live.no_memory", name=gpu.name)
    return say("live.now", name=gpu.name, free=size(gpu.free_gib), total=size(gpu.total_gib))


def _used(name: str | None, pid: int, gib: float | None) -> Sentence:
    return say("live.used_by", name=name or "?", pid=pid, used=say("doctor.unknown") if gib is None else size(gib))
