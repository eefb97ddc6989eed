"""What a run's own events say more than its log: AI Toolkit catches some errors and prints a few words of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, get_args

from ..contracts import Diagnosis, Event, Evidence, Numbers, Stage, say

_NAMES = tuple(each.name for each in fields(Numbers))


def with_events(diagnosis: Diagnosis, events: Sequence[Event]) -> Diagnosis:
    """The diagnosis, with the numbers and the place of the last out-of-memory error where the log does not tell them.

    The line of the evidence is then one of ``events.jsonl``, and says so. What failed stays as it was found.
    """
    skipped = sum(event.event == "skipped" for event in events)
    if skipped > diagnosis.steps.skipped_batches:
        diagnosis = replace(diagnosis, steps=replace(diagnosis.steps, skipped_batches=skipped))
    last = next((event for event in reversed(events) if event.event == "out_of_memory"), None)
    if last is None:
        return diagnosis
    phase: Stage = next((stage for stage in get_args(Stage) if stage == last.keys.get("phase")), "unknown")
    if not diagnosis.memory_failure or diagnosis.cause != "vram":
        told = say("warning.probe_saw_memory", phase=say(f"stage.{phase}"), line=last.seq)
        return diagnosis if told in diagnosis.warnings else replace(diagnosis, warnings=(*diagnosis.warnings, told))
    if diagnosis.numbers != Numbers() or diagnosis.stage not in (phase, "unknown"):
        return diagnosis
    message = str(last.keys.get("message", "")).strip().splitlines()
    cited = Evidence(last.seq, message[0] if message else "", say("means.event", line=last.seq))
    return replace(
        diagnosis,
        stage=phase,
        inside=diagnosis.inside or str(last.keys.get("inside") or ""),
        numbers=_numbers(last.keys.get("numbers")),
        evidence=(*diagnosis.evidence, cited),
    )


def _numbers(told: Any) -> Numbers:
    known = told.items() if isinstance(told, dict) else ()
    return Numbers(**{name: value for name, value in known if name in _NAMES and isinstance(value, (int, float))})
