"""What a budget node shows: what it grants, and what the card has and who uses it when it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..headroom.contracts import Budget, Sentence, say
from ..headroom.memory.budgeting import short_of_room
from ..headroom.memory.nvml import Gpu, GpuReading
from ..headroom.report.wording import words
from .amounts import budget_said, size


def budget_panels(budget: Budget, gpu: Gpu | None, reading: GpuReading, languages: tuple[str, ...]) -> dict[str, Any]:
    """The panel, once per language."""
    return {"headroom": [_panel(budget, gpu, reading, lang) for lang in languages]}


def _panel(budget: Budget, gpu: Gpu | None, reading: GpuReading, lang: str) -> dict[str, Any]:
    notes = [*short_of_room(budget, gpu), *([say("node.run.metered")] if gpu is None else []), *reading.notes]
    return {
        "kind": "facts",
        "lang": lang,
        "title": words(budget_said(budget), lang),
        "facts": [[words(say(f"node.run.{key}"), lang), words(value, lang)] for key, value in _facts(gpu)],
        "warnings": [words(each, lang) for each in notes],
    }


def _facts(gpu: Gpu | None) -> Iterator[tuple[str, Sentence]]:
    if gpu is None:
        return
    yield "card", say("node.run.plain", text=gpu.name)
    if gpu.total_gib is not None and gpu.free_gib is not None:
        yield "card_now", say("node.run.free_of", free=size(gpu.free_gib), total=size(gpu.total_gib))
    for process in gpu.processes or ():
        name = f"{process.name or '?'} ({process.pid})"
        used = say("doctor.unknown") if process.used_gib is None else size(process.used_gib)
        yield "used_by", say("node.run.used_by_whom", name=name, used=used)
