"""From a log that was read to a ``Diagnosis``: the first rule of ``rules.yaml`` that holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..contracts import Cause, Diagnosis, Evidence, FailureClass, Job, Known, Sentence, Stage, Steps, say
from .facts import Facts, rules, weigh
from .findings import Finding, LogReading
from .timeline import Place, Timeline

_ENVIRONMENT = ("gpu_state", "other_process", "version_regression")
_HOST = ("host_ram", "pinned_memory", "shared_memory", "page_file", "spill")
_MOST_EVIDENCE = 8


def diagnose(reading: LogReading, known: Known = Known(), job: Job | None = None) -> Diagnosis:  # noqa: B008
    """Say what failed, where, why, and what kind of answer helps. Never memory without a line that shows it."""
    facts, timeline = weigh(reading, known, job)
    rule = next(each for each in rules()["rules"] if facts.holds(each["when"]))
    decisive = _decisive(rule, facts)
    place = _place(rule, decisive, facts, timeline)
    steps = replace(timeline.steps, skipped_batches=_skipped(reading))
    memory = rule.get("memory", False)
    return Diagnosis(
        memory_failure=memory,
        failure_class=_class(rule["cause"], place.stage, steps, facts),
        cause=rule["cause"],
        stage=place.stage,
        advice=rule["advice"],
        confidence=rule["confidence"],
        summary=_summary(rule, place, facts, known, steps),
        evidence=_evidence(rule, decisive, place, facts, reading),
        numbers=facts.numbers,
        steps=steps,
        warnings=_warnings(facts, steps, memory),
        rule=rule["id"],
        inside=place.inside,
    )


def _decisive(rule: dict[str, Any], facts: Facts) -> Finding | None:
    pool = (*facts.swallowed, *facts.live)
    if facts.fatal and facts.fatal.says in rule["by"]:
        return facts.fatal
    for says in rule["by"]:
        found = [finding for finding in pool if finding.says == says]
        if found:
            return max(found, key=lambda finding: finding.at)
    return None


def _place(rule: dict[str, Any], decisive: Finding | None, facts: Facts, timeline: Timeline) -> Place:
    if "stage" in rule:
        line, text = (decisive.line, decisive.text) if decisive else (0, "")
        return Place(rule["stage"], "", line, text)
    place = timeline.place_of(decisive if rule["by"] else None)
    return replace(place, stage=rule["otherwise"]) if place.stage == "unknown" and "otherwise" in rule else place


def _skipped(reading: LogReading) -> int:
    skipping = {finding.message for finding in reading.findings if finding.says == "skipped_batch"}
    return sum(reading.counts[message] for message in skipping)


def _class(cause: Cause, stage: Stage, steps: Steps, facts: Facts) -> FailureClass:
    """The guide's letters: A load, B first steps, C preview, D only sometimes."""
    if cause in ("none", "interrupted"):
        return "none"
    if cause in _ENVIRONMENT:
        return "environment"
    if cause in _HOST:
        return "host"
    if cause != "vram":
        return "other"
    if stage in ("sample", "baseline_sample"):
        return "C"
    if stage == "train":
        far = (steps.done or 0) > rules()["thresholds"]["first_steps"]
        return "D" if far or (steps.skipped_batches and "finished" in facts.names) else "B"
    if stage in ("startup", "load", "cache"):
        return "A"
    return "D" if stage == "save" else "B"


def _summary(rule: dict[str, Any], place: Place, facts: Facts, known: Known, steps: Steps) -> tuple[Sentence, ...]:
    n = facts.numbers
    what = say(f"diagnosis.rule.{rule['id']}", stage=say(f"stage.{place.stage}"))
    sentences = [what]
    total = n.total_gib or known.gpu_gib
    if rule["id"] == "foreign_process":
        sentences.append(say("diagnosis.others", count=facts.named_processes, others_gib=n.other_processes_gib))
    elif n.requested_gib is not None and n.free_gib is not None and total:
        sentences.append(say("diagnosis.sizes", requested_gib=n.requested_gib, free_gib=n.free_gib, total_gib=total))
    if steps.skipped_batches:
        sentences.append(say("diagnosis.skipped", count=steps.skipped_batches))
    return tuple(sentences)


def _evidence(
    rule: dict[str, Any],
    decisive: Finding | None,
    place: Place,
    facts: Facts,
    reading: LogReading,
) -> tuple[Evidence, ...]:
    chosen: list[Finding] = [decisive] if decisive else []
    pool = (*facts.swallowed, *facts.live)
    chosen += [f for f in pool if f.says in rule["by"] and f.line not in {c.line for c in chosen}]
    if facts.measured:
        chosen = [*chosen[:1], facts.measured, *chosen[1:]]
    lines: dict[int, Evidence] = {}
    for finding in chosen:
        for number, text in finding.cited:
            held = lines.get(number)
            if held is None and len(lines) < _MOST_EVIDENCE:
                lines[number] = Evidence(number, text, say(f"means.{finding.says}"))
            elif held and text not in held.text:  # two messages between carriage returns of one line
                lines[number] = replace(held, text=f"{held.text} {text}")
    if place.line and place.line not in lines:
        lines[place.line] = Evidence(place.line, place.text, say("means.stage", stage=say(f"stage.{place.stage}")))
    if not lines and reading.last_line[1].strip():
        number, text = reading.last_line
        lines[number] = Evidence(number, text, say("means.last_line"))
    return tuple(lines.values())


def _warnings(facts: Facts, steps: Steps, memory: bool) -> tuple[Sentence, ...]:
    warnings = []
    if steps.skipped_batches and "finished" in facts.names:
        warnings.append(say("warning.largest_bucket_may_never_train", count=steps.skipped_batches))
    for says in rules()["worth_a_warning"]:
        count = sum(finding.says == says for finding in facts.live)
        if count:
            warnings.append(say(f"warning.{says}", count=count))
    if facts.swallowed and not memory and any(f.says in rules()["memory"] for f in facts.swallowed):
        warnings.append(say("warning.swallowed_memory"))
    n = facts.numbers
    if memory and n.reserved_unallocated_gib and n.requested_gib and n.reserved_unallocated_gib >= n.requested_gib:
        warnings.append(say("warning.fragmentation", reserved_unallocated_gib=n.reserved_unallocated_gib))
    return tuple(warnings)
