"""How a run went, as the page shows it on a node and as plain text: every sentence in the reader's language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..headroom.contracts import Budget, Diagnosis, Event, Sentence, say
from ..headroom.report.masking import masked
from ..headroom.report.report import advice_of, change_line, summary_of
from ..headroom.report.wording import words
from ..headroom.run.ai_toolkit_run import AiToolkitRun
from .amounts import budget_said, size
from .run_outputs import last_previews
from .run_status import below

_MOST_SAMPLES = 8
_MOST_LINES, _LONGEST_LINE = 2, 160
_PHASES = ("load", "cache", "baseline_sample", "train", "sample", "save")


def run_panel(
    run: AiToolkitRun, kept: bool, loras: Sequence[str], events: Sequence[Event], lang: str
) -> dict[str, Any]:
    """A run that is over: what came of it, what it took against its budget, its previews, and what was changed."""
    result = run.result
    assert result is not None

    def text(sentence: Sentence) -> str:
        return masked(words(sentence, lang))

    def label(key: str) -> str:
        return words(say(f"node.run.{key}"), lang)

    told = [summary_of(result.diagnosis, lang), words(_advice(result.diagnosis), lang)] if result.diagnosis else []
    if result.outcome == "failed" and result.diagnosis is None:
        told.append(text(say("node.run.short_of", what=[say(f"node.run.want.{each}") for each in run.short_of])))
    return {
        "kind": "run",
        "lang": lang,
        "outcome": result.outcome,
        "title": text(_title(run, kept)),
        "told": [masked(each) for each in told],
        "lines": [
            masked(each.text[:_LONGEST_LINE]) for each in (result.diagnosis.evidence if result.diagnosis else ())
        ][:_MOST_LINES],
        "facts": [[label(key), masked(words(value, lang))] for key, value in _facts(run, kept, loras, events)],
        "peaks_head": [label(key) for key in ("peak", "vram", "ram")],
        "peaks": _peaks(run.budget, result.peaks, lang),
        "changes_title": label("changes"),
        "changes": [masked(f"{change_line(each, lang)}: {words(each.reason, lang)}") for each in run.changes],
        "warnings": [text(each) for each in result.warnings],
        "run": f"{run.folder.parent.name}/{run.folder.name}",
        "samples": [below(run.run, path) for path in last_previews(events)[-_MOST_SAMPLES:]],
    }


def as_text(panel: dict[str, Any]) -> str:
    """The panel as plain text."""
    lines = [panel["title"], *panel["told"], *(f"  {each}" for each in panel["lines"]), ""]
    lines += [f"{name}: {value}" for name, value in panel["facts"]]
    if panel["peaks"]:
        lines += ["", " | ".join(panel["peaks_head"]), *(" | ".join(row) for row in panel["peaks"])]
    if panel["changes"]:
        lines += ["", panel["changes_title"], *(f"  {each}" for each in panel["changes"])]
    return "\n".join([*lines, *([""] if panel["warnings"] else []), *panel["warnings"]]).strip() + "\n"


def _advice(diagnosis: Diagnosis) -> Sentence:
    """What to do; the job that is changed for it comes out of the classifier, not here."""
    return say("node.run.ask_classifier") if diagnosis.advice == "change_job" else advice_of(diagnosis)


def _title(run: AiToolkitRun, kept: bool) -> Sentence:
    result, until = run.result, run.run.until
    assert result is not None
    if result.outcome == "finished" and until:
        return say(f"node.run.went_through.{until}")
    if result.outcome == "finished":
        return say("node.run.trained_before" if kept else "node.run.trained", steps=result.steps.done)
    if result.steps.done:
        return say(f"node.run.{result.outcome}_at", done=result.steps.done, total=result.steps.total or "?")
    return say(f"node.run.{result.outcome}")


def _facts(
    run: AiToolkitRun, kept: bool, loras: Sequence[str], events: Sequence[Event]
) -> Iterator[tuple[str, Sentence]]:
    result = run.result
    assert result is not None
    if loras:
        yield "lora", say("node.run.plain", text=list(loras))
    elif result.checkpoint:
        yield "checkpoint", say("node.run.plain", text=Path(result.checkpoint).name)
    if result.steps.skipped_batches:
        yield "skipped", say("node.run.plain", text=result.steps.skipped_batches)
    previews = Counter(str(event.keys.get("outcome")) for event in events if event.event == "preview")
    if previews:
        counts = {name: previews[name] for name in ("made", "smaller", "skipped")}
        yield "previews", say("node.run.previews_were", **counts)
    if not kept:
        yield "budget", budget_said(run.budget)
    yield "folder", say("node.run.plain", text=f"{run.folder.parent.name}/{run.folder.name}")


def _peaks(budget: Budget, peaks: Any, lang: str) -> list[list[str]]:
    """A row for each phase: its name, then the most it took of the card and of the host, against the budget."""

    def cell(peak: float | None, most: float | None) -> str:
        if peak is None:
            return "–"
        shown = size(peak) if most is None else say("node.run.of", peak=size(peak), most=size(most))
        return words(shown, lang)

    return [
        [
            words(say(f"node.run.phase.{phase}"), lang),
            cell(peaks[phase][0], budget.vram_gib),
            cell(peaks[phase][1], budget.host_ram_gib),
        ]
        for phase in _PHASES
        if phase in peaks
    ]
