"""What the page shows on a node: plain data for ``js/panel.mjs``, every sentence already in the reader's language."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..headroom.contracts import Job, say
from ..headroom.job import settings
from ..headroom.recovery import Recovery
from ..headroom.report.masking import masked
from ..headroom.report.report import as_json, change_line, diff_lines, report
from ..headroom.report.wording import words
from .sockets import CarriedDiagnosis, CarriedJob

_HEADINGS = ("what", "do", "changes", "why", "price", "where", "evidence", "line", "notes", "warnings", "escalation")
# The settings of a job that decide how much memory it takes, in the order a person looks for them.
_SHOWN = (
    "model.name_or_path",
    "model.quantize",
    "model.low_vram",
    "train.batch_size",
    "train.gradient_accumulation",
    "train.gradient_checkpointing",
    "train.disable_sampling",
    "sample.width",
    "sample.height",
)
_SHOWN_IF_WRITTEN = ("sample.num_frames", "network.linear", "train.cache_text_embeddings", "train.optimizer")
_SHOWN_OF_A_DATASET = ("resolution", "num_frames", "batch_size")


def _as_ui(panels: list[dict[str, Any]]) -> dict[str, Any]:
    return {"headroom": panels}


def plain_report(carried: CarriedDiagnosis, lang: str) -> str:
    """The whole report as text, with what is secret in the log masked."""
    return masked(report(carried.recovery, lang))


def diagnosis_panel(carried: CarriedDiagnosis, languages: tuple[str, ...]) -> dict[str, Any]:
    """A diagnosis, once per language: verdict, changes, evidence, the corrected job and its diff."""
    return _as_ui([_diagnosis_panel(carried.recovery, lang) | {"masked": carried.masked} for lang in languages])


def _diagnosis_panel(recovery: Recovery, lang: str) -> dict[str, Any]:
    found = recovery.diagnosis
    corrected = recovery.correction.job
    answer = json.loads(masked(json.dumps(as_json(recovery, lang), ensure_ascii=False, default=str)))
    answer |= {
        "kind": "diagnosis",
        "lang": lang,
        "headings": {name: words(say(f"report.{name}"), lang) for name in _HEADINGS},
        "labels": [
            words(say(key), lang)
            for key in (f"class.{found.failure_class}", f"cause.{found.cause}", f"stage.{found.stage}")
        ],
        "yaml": corrected.text if corrected and recovery.correction.changes else None,
        "diff": _diff(recovery.job, corrected),
    }
    for shown, change in zip(answer["changes"], recovery.correction.changes, strict=True):
        shown["line"] = change_line(change, lang)
    return answer


def _diff(before: Job | None, after: Job | None) -> list[str]:
    lines = diff_lines(before, after) if before and after else []
    return masked("\n".join(lines)).split("\n") if lines else []


def job_panel(carried: CarriedJob) -> dict[str, Any]:
    """A job that was loaded: the settings that decide its memory, as AI Toolkit would use them, and its text."""
    used = settings(carried.job)
    if_written = [
        *_SHOWN_IF_WRITTEN,
        *(f"datasets[{number}].{key}" for number in range(used.datasets) for key in _SHOWN_OF_A_DATASET),
    ]
    paths = [*_SHOWN, *(path for path in if_written if used.has(path))]
    facts = [["model.arch", used.architecture, used.has("model.arch")]]
    facts += [[path, _shown(used.get(path)), used.has(path)] for path in paths]
    panel = {"kind": "job", "masked": carried.masked, "facts": facts, "text": masked(carried.job.text)}
    return _as_ui([panel])


def _shown(value: Any) -> str:
    return masked(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def saved_panel(carried: CarriedJob, path: Path, output: Path) -> dict[str, Any]:
    """A job that was written: where it lies under the output folder, and what differs from the job it came from."""
    panel = {
        "kind": "saved",
        "masked": carried.masked,
        "file": path.name,
        "subfolder": path.parent.relative_to(output).as_posix(),
        "yaml": carried.job.text,
        "diff": _diff(carried.before, carried.job),
    }
    return _as_ui([panel])
