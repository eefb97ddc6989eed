"""The one call from a failed run to a corrected job, for nodes and the command line alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..contracts import Correction, Diagnosis, Job, Known, Language, Sentence, Strength, say
from ..diagnosis import LogReading, diagnose, read_log
from ..guard.traps import traps
from ..job import JobError, job_from_log
from .correct import correct

_SURE = 0.9


@dataclass(frozen=True)
class Recovery:
    """A failure, read: ``job`` as given or as AI Toolkit printed it in its log, ``None`` without either."""

    job: Job | None
    diagnosis: Diagnosis
    correction: Correction

    @property
    def safe_to_retry(self) -> bool:
        """Whether running a job (the corrected one, where it changed) makes sense before anything else is done."""
        if self.diagnosis.advice == "change_job":
            return self.job is not None and bool(self.correction.changes)
        seen = self.diagnosis.stage != "unknown" or self.diagnosis.confidence >= _SURE
        return self.diagnosis.cause in ("none", "interrupted") and seen


def recover(
    log: str | bytes | Path,
    job: Job | None = None,
    known: Known = Known(),  # noqa: B008
    strength: Strength = "next",
    locks: Sequence[str] = (),
    comments: Language | None = "en",
    write: bool = True,
) -> Recovery:
    """Read a failed run and correct its job.

    ``log`` is the text, its bytes, its file, or the folder of AI Toolkit's UI. Without ``job``, the configuration that
    AI Toolkit prints in its own log is the job. ``comments`` is the language of the reasons written into the YAML;
    without ``write`` the corrected text is not made (``correction.job`` is ``None``), only the changes.
    Raises OSError where the log cannot be read, ``job.JobError`` where a lock is none.
    """
    reading = read_log(log)
    warnings: tuple[Sentence, ...] = ()
    if job is None:
        job, warnings = _printed_job(reading)
    diagnosis = diagnose(reading, known, job)
    if job is not None:
        warnings += traps(job, diagnosis.steps.skipped_batches)
    diagnosis = replace(diagnosis, warnings=diagnosis.warnings + warnings)
    return Recovery(job, diagnosis, correct(job, diagnosis, strength, locks, comments=comments, write=write))


def _printed_job(reading: LogReading) -> tuple[Job | None, tuple[Sentence, ...]]:
    """The job in the log, or the reason why what is printed there is none."""
    if reading.config_json is None:
        return None, ()
    try:
        return job_from_log(reading.config_json, reading.job_name), ()
    except JobError as error:
        return None, (say("warning.printed_job_unreadable", reason=error.sentence),)
