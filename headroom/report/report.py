"""A recovery as a person reads it, and as a program does."""

from __future__ import annotations

import difflib
from dataclasses import asdict
from functools import reduce
from typing import Any

from ..contracts import Change, Diagnosis, Job, Sentence, say
from ..recovery import Recovery
from .wording import known_key, words


def summary_of(diagnosis: Diagnosis, lang: str) -> str:
    """What failed and why, in one to three sentences."""
    told = [words(each, lang) for each in diagnosis.summary]
    return reduce(lambda one, next_one: words(say("report.in_a_row", one=one, next_one=next_one), lang), told)


def advice_of(diagnosis: Diagnosis) -> Sentence:
    """What to do: ``advice.<advice>.<cause>`` or ``.<evidence>`` where there are words, else ``advice.<advice>``."""
    told = [diagnosis.cause, *(each.means.key.rpartition(".")[2] for each in diagnosis.evidence[:1])]
    for detail in told:
        if known_key(key := f"advice.{diagnosis.advice}.{detail}"):
            return say(key)
    return say(f"advice.{diagnosis.advice}")


def escalation_of(diagnosis: Diagnosis, lang: str) -> str | None:
    """The text to pass to support where the worker is at fault, else ``None``."""
    if diagnosis.advice != "new_worker":
        return None
    gib = diagnosis.numbers.total_gib
    return words(
        say(
            "advice.escalation",
            stage=say(f"stage.{diagnosis.stage}"),
            line=diagnosis.evidence[0].text[:300] if diagnosis.evidence else "-",
            gpu=f"{gib:.2f} GiB" if gib else "-",
        ),
        lang,
    )


def diff_lines(before: Job, after: Job) -> list[str]:
    """The lines that differ, as a unified diff without its header: ``-`` gone, ``+`` new, blank the lines around."""
    lines = difflib.unified_diff(before.text.splitlines(), after.text.splitlines(), lineterm="", n=1)
    return [line for line in lines if not line.startswith(("---", "+++"))]


def change_line(change: Change, lang: str) -> str:
    """``train.batch_size: 4 → 1``."""
    old = words(say("report.unset"), lang) if change.old is None else _value(change.old)
    return f"{change.path}: {old} → {_value(change.new)}"


def _shortened(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[:most].rstrip() + " …"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def report(recovery: Recovery, lang: str = "en") -> str:
    """The report in plain text: what failed, what to do, the changes, the evidence."""
    diagnosis, correction = recovery.diagnosis, recovery.correction

    def head(key: str) -> str:
        return words(say(f"report.{key}"), lang)

    lines = [head("what") + ": " + summary_of(diagnosis, lang)]
    facts = [
        f"{head('class')} {words(say(f'class.{diagnosis.failure_class}'), lang)}",
        f"{head('cause')}: {words(say(f'cause.{diagnosis.cause}'), lang)}",
        f"{head('stage')}: {words(say(f'stage.{diagnosis.stage}'), lang)}",
        f"{head('confidence')} {diagnosis.confidence:.2f}",
    ]
    if diagnosis.steps.total:
        facts.append(f"{head('steps')} {diagnosis.steps.done}/{diagnosis.steps.total}")
    lines.append("  " + " · ".join(facts))
    lines += ["", head("do") + ": " + words(advice_of(diagnosis), lang)]
    if escalation := escalation_of(diagnosis, lang):
        lines += ["", head("escalation") + ":", "  " + escalation]
    if correction.changes:
        lines += ["", head("changes") + ":"]
        for change in correction.changes:
            lines.append("  " + change_line(change, lang))
            lines += [
                f"      {head(key)}: {words(sentence, lang)}"
                for key, sentence in (("why", change.reason), ("price", change.price), ("where", change.where))
            ]
    for title, sentences in (("notes", correction.notes), ("warnings", diagnosis.warnings)):
        if sentences:
            lines += ["", head(title) + ":", *(f"  {words(each, lang)}" for each in sentences)]
    if diagnosis.evidence:
        lines += ["", head("evidence") + ":"]
        lines += [
            f"  {head('line')} {each.line}: {_shortened(each.text)}\n      {words(each.means, lang)}"
            for each in diagnosis.evidence
        ]
    return "\n".join(lines) + "\n"


def as_json(recovery: Recovery, lang: str = "en") -> dict[str, Any]:
    """The object of ``diagnose --json``; its keys are what other programs rely on."""
    diagnosis, correction = recovery.diagnosis, recovery.correction
    return {
        "memory_failure": diagnosis.memory_failure,
        "class": diagnosis.failure_class,
        "cause": diagnosis.cause,
        "stage": diagnosis.stage,
        "inside": diagnosis.inside or None,
        "advice": diagnosis.advice,
        "confidence": diagnosis.confidence,
        "summary": summary_of(diagnosis, lang),
        "what_to_do": words(advice_of(diagnosis), lang),
        "escalation": escalation_of(diagnosis, lang),
        "safe_to_retry": recovery.safe_to_retry,
        "evidence": [
            {"line": each.line, "text": each.text, "means": words(each.means, lang)} for each in diagnosis.evidence
        ],
        "numbers": {name: value for name, value in asdict(diagnosis.numbers).items() if value is not None},
        "steps": asdict(diagnosis.steps),
        "warnings": [words(each, lang) for each in diagnosis.warnings],
        "notes": [words(each, lang) for each in correction.notes],
        "changes": [change_as_json(change, lang) for change in correction.changes],
        "rule": diagnosis.rule,
    }


def change_as_json(change: Change, lang: str = "en") -> dict[str, Any]:
    """A change as every verb's ``--json`` prints it."""
    return {
        "lever": change.lever,
        "path": change.path,
        "old": change.old,
        "new": change.new,
        "reason": words(change.reason, lang),
        "price": words(change.price, lang),
        "where": words(change.where, lang),
    }
