"""Whether a run of AI Toolkit finished: it prints no success line, and exits with 0 when it was cancelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..contracts import Diagnosis, Event, Job, Known, RunResult, Steps
from ..diagnosis import diagnose, read_log
from .checkpoints import final_save, opens
from .store import Run

_CARD = ("device_gib", "reserved_gib", "allocated_gib")  # the first that is known

Want = Literal["exit_code", "finished_event", "steps", "final_save", "checkpoint_opens"]


@dataclass(frozen=True)
class Judgement:
    """A result, and what it is short of: empty for a run that finished."""

    result: RunResult
    short_of: tuple[Want, ...] = ()


def judge(run: Run, job: Job, events: Sequence[Event], known: Known, cancelled: bool, base: Path) -> Judgement:
    """How a run ended, from its exit code, log, events and checkpoint. A load check needs no steps and no save.

    ``base`` is the folder that it ran in, which the paths it prints may be relative to.
    """
    diagnosis = _diagnosis(run, job, known)
    how = next((event.keys.get("how") for event in reversed(events) if event.event == "finished"), None)
    steps = _steps(diagnosis, events)
    final = _final_save(run.log, base)
    short: list[Want] = []
    if known.exit_code != 0:
        short.append("exit_code")
    if how != "finished":
        short.append("finished_event")
    if run.until is None:
        if steps.total is None or steps.done != steps.total:
            short.append("steps")
        if final is None:
            short.append("final_save")
        elif not opens(final):
            short.append("checkpoint_opens")
    stopped = cancelled or (how == "stopped" and known.exit_code == 0)
    outcome: Literal["finished", "failed", "cancelled"]
    outcome = "finished" if not short else "cancelled" if stopped else "failed"
    checkpoint = final if not short else _newest(run, final)
    told = diagnosis if outcome == "failed" or (outcome == "finished" and diagnosis.memory_failure) else None
    path = str(checkpoint) if checkpoint else None
    result = RunResult(outcome, run.engine, str(run.folder), steps, path, peaks(events), told)
    return Judgement(result, tuple(short))


def peaks(events: Sequence[Event]) -> dict[str, tuple[float | None, float | None]]:
    """The highest (card, host) GiB of each phase: what the card shows, else what the allocator holds."""
    found: dict[str, tuple[float | None, float | None]] = {}
    for event in events:
        peak = event.keys.get("peak")
        if event.event == "phase" and event.keys.get("state") == "end" and isinstance(peak, Mapping):
            vram = next((peak[name] for name in _CARD if _number(peak, name)), None)
            host = peak["host_gib"] if _number(peak, "host_gib") else None
            before = found.get(str(event.keys.get("phase")), (None, None))
            found[str(event.keys.get("phase"))] = (_higher(before[0], vram), _higher(before[1], host))
    return found


def _number(peak: Mapping[str, Any], name: str) -> bool:
    return isinstance(peak.get(name), (int, float))


def _higher(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _diagnosis(run: Run, job: Job, known: Known) -> Diagnosis:
    return diagnose(read_log(run.log if run.log.exists() else b""), known, job)


def _steps(diagnosis: Diagnosis, events: Sequence[Event]) -> Steps:
    """The steps of AI Toolkit's own bar; the probe's where the log shows none. Skipped batches: whoever saw more."""
    steps = diagnosis.steps
    skipped = max(steps.skipped_batches, sum(event.event == "skipped" for event in events))
    if steps.total is None:
        last = next((event.keys for event in reversed(events) if event.event in ("step", "skipped")), {})
        total = next((event.keys.get("total") for event in reversed(events) if event.event == "step"), None)
        steps = Steps(last.get("step"), total)
    return replace(steps, skipped_batches=skipped)


def _final_save(log: Path, base: Path) -> Path | None:
    try:
        final = final_save(log)
    except OSError:
        return None
    return base / final if final else None


def _newest(run: Run, final: Path | None) -> Path | None:
    """What a run that did not finish left, to go on from: its newest checkpoint that opens."""
    saved = [Path(entry["path"]) for entry in run.index() if entry["kind"] == "checkpoint"]
    return next((path for path in (*([final] if final else []), *reversed(saved)) if opens(path)), None)
