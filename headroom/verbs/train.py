"""``train``: carry a job out with AI Toolkit here, inside a memory budget; the job is the user's own and stays so."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .. import places
from ..contracts import Budget, Change, Job, RunResult, Sentence, say
from ..diagnosis.probed import with_events
from ..job import read_job_file
from ..job.outputs import save_roots, with_another_folder
from ..memory.budgeting import default_budget
from ..recovery import Recovery
from ..recovery.correct import correct
from ..report.report import as_json, change_as_json, report
from ..report.wording import words
from ..run.ai_toolkit import AiToolkit
from ..run.ai_toolkit_run import AiToolkitRun
from ..run.events import read_events
from ..run.gpu_lock import GpuBusy
from ..run.here import engine_here
from ..run.holding import RunInUse
from ..run.store import Resume, RunExists, Store
from .answers import CANCELLED, FINISHED, NOT_FINISHED, InputError, peaks_as_json, print_json
from .following import Following

_POLL_SECONDS = 0.2
_CODES = {"finished": FINISHED, "failed": NOT_FINISHED, "cancelled": CANCELLED}


def run(options: argparse.Namespace) -> int:
    """Train; 0 finished, 1 not, 130 cancelled. Progress goes to the standard error, the answer to the output."""
    lang, settings = options.lang, places.settings_file()
    job = read_job_file(Path(options.job))
    resume: Resume = "fresh" if options.force and options.resume == "resume" else options.resume
    store = Store(settings=settings)
    engine = engine_here(settings, store, resume=resume, force=options.force, largest_bucket=options.largest_bucket)
    job, changes = _in_its_folder(job, engine.toolkit, resume)
    following = Following(sys.stderr, lang)
    begun = _start(engine, job, _budget(options, engine), options.until)
    earlier = begun.result is not None
    for sentence in _before(begun, changes, earlier):
        following.say(sentence)
    previews = _follow(begun, following, shows=not earlier)
    result = begun.result or RunResult("cancelled", engine.name, str(begun.folder))  # or nobody waited for it
    found = _recovery(job, result, lang)
    if options.json:
        attempt = {"run": result.folder, "outcome": result.outcome, "until": options.until}
        attempt["diagnosis"] = as_json(found, lang) if found else None
        attempt["changes"] = [change_as_json(change, lang) for change in changes]
        print_json(_answer(result, previews, lang) | {"attempts": [attempt], "earlier": earlier})
        return _CODES[result.outcome]
    for sentence in _after(result, begun, previews):
        print(words(sentence, lang))
    if result.outcome == "cancelled" and result.checkpoint and not changes:
        print(words(say("train.goes_on"), lang))
    if found:
        print("\n" + report(found, lang), end="")
        if found.correction.changes:
            print("\n" + words(say("train.corrected", run=result.folder), lang))
    return _CODES[result.outcome]


def _in_its_folder(job: Job, toolkit: Path, resume: Resume) -> tuple[Job, tuple[Change, ...]]:
    """The job itself; for a fresh start, where its folder is there already, in another one."""
    if resume == "fresh":
        return with_another_folder(job, toolkit)
    if resume == "fail":
        for root in save_roots(job, toolkit):
            if root.exists():
                raise InputError(say("train.exists", folder=str(root)))
    return job, ()


def _budget(options: argparse.Namespace, engine: AiToolkit) -> Budget | None:
    """What was asked for; of the card, where only RAM was, what is free."""
    if options.vram is None and options.host_ram is None:
        return None
    asked = Budget() if options.vram else default_budget(engine.gpus())
    return replace(asked, vram_gib=options.vram or asked.vram_gib, host_ram_gib=options.host_ram)


def _start(engine: AiToolkit, job: Job, budget: Budget | None, until: Any) -> AiToolkitRun:
    try:
        return engine.start(job, budget, until)
    except GpuBusy as busy:
        unknown = say("doctor.unknown")
        run, pid = (busy.holder.run, busy.holder.pid) if busy.holder else (unknown, unknown)
        raise InputError(say("train.gpu_busy", run=run, pid=pid)) from None
    except RunExists as error:
        raise InputError(say("train.exists", folder=str(error.folder))) from None
    except RunInUse as error:
        raise InputError(say("train.in_use", run=str(error))) from None


def _follow(begun: AiToolkitRun, following: Following, shows: bool) -> Counter[str]:
    """Show the run to its end, and count what became of its previews. Ctrl-C ends it; again, nobody waits for that."""
    previews: Counter[str] = Counter()
    cancelled = over = False
    while not over:
        try:
            over = begun.wait(_POLL_SECONDS) is not None
            for event in begun.read():
                if shows:
                    following.show(event)
                if event.event == "preview":
                    previews[str(event.keys.get("outcome"))] += 1
        except KeyboardInterrupt:
            if cancelled:
                break
            cancelled = True
            begun.cancel()
            following.say(say("train.cancelling"))
    following.end()
    return previews


def _recovery(job: Job, result: RunResult, lang: Any) -> Recovery | None:
    if result.diagnosis is None:
        return None
    diagnosis = with_events(result.diagnosis, read_events(Path(result.folder, "events.jsonl")))
    return Recovery(job, diagnosis, correct(job, diagnosis, comments=lang))


def _before(begun: AiToolkitRun, changes: tuple[Change, ...], earlier: bool) -> Iterator[Sentence]:
    if earlier:
        yield say("train.earlier", run=str(begun.folder))
        return
    yield say("train.begins", run=str(begun.folder))
    for change in (*changes, *begun.changes):
        yield say("train.changed", path=change.path, new=change.new, reason=change.reason)
    if begun.budget.vram_gib is not None:
        yield say("train.budget", gib=begun.budget.vram_gib)
    yield from begun.warnings


def _after(result: RunResult, begun: AiToolkitRun, previews: Counter[str]) -> Iterator[Sentence]:
    """How it ended, and where the results lie."""
    unknown = say("doctor.unknown")
    steps = result.steps
    done, total = (unknown if number is None else number for number in (steps.done, steps.total))
    if result.outcome == "finished" and begun.run.until:
        yield say("train.finished_until", until=begun.run.until)
    else:
        yield say(f"train.{result.outcome}", done=done, total=total)
    if steps.skipped_batches:
        yield say("train.skipped_in_all", count=steps.skipped_batches)
    if previews["smaller"] or previews["skipped"]:
        yield say("train.previews", **{name: previews[name] for name in ("made", "smaller", "skipped")})
    for phase, (card, host) in result.peaks.items():
        if card is not None:
            yield say("train.peak", phase=say(f"stage.{phase}"), gib=card)
        elif host is not None:
            yield say("train.peak.host", phase=say(f"stage.{phase}"), gib=host)
    yield from (warning for warning in result.warnings if warning not in begun.warnings)
    if result.checkpoint:
        yield say("train.result", path=result.checkpoint)
    samples = [Path(entry["path"]).parent for entry in begun.run.index() if entry["kind"] == "sample"]
    if samples:
        yield say("train.samples", path=str(samples[-1]))
    yield say("train.run", run=result.folder)


def _answer(result: RunResult, previews: Counter[str], lang: str) -> dict[str, Any]:
    return {
        "outcome": result.outcome,
        "engine": result.engine,
        "rehearsal": False,
        "checkpoint": result.checkpoint,
        "steps": asdict(result.steps),
        "peaks": peaks_as_json(result.peaks),
        "previews": {name: previews[name] for name in ("made", "smaller", "skipped")},
        "warnings": [words(warning, lang) for warning in result.warnings],
    }
