"""What the classifier's and the job nodes' inputs name, read with the core."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import cast

from ..headroom.contracts import Known, Strength
from ..headroom.diagnosis import find_job
from ..headroom.diagnosis.probed import with_events
from ..headroom.job import read_job_file
from ..headroom.recovery import recover
from ..headroom.run.events import read_events
from .errors import InputError
from .language import Language
from .pasted import was_masked
from .places import places
from .sockets import CarriedDiagnosis, CarriedJob, CarriedRun
from .sources import NO_JOB, NO_LOG, PRINTED_JOB, STRENGTHS, find


def read_named_job(name: str) -> CarriedJob:
    """The job behind a name that a node offers. Raises InputError or JobError."""
    if name == NO_JOB:
        raise InputError("no_job")
    return CarriedJob(read_job_file(find(name, "job", places())), masked=was_masked(name))


def exit_code_of(text: str) -> int | None:
    """The exit code somebody wrote, decimal or 0x…; ``None`` for nothing. Raises InputError."""
    if not text.strip():
        return None
    try:
        return int(text.strip(), 0)
    except ValueError:
        raise InputError("exit_code", value=text.strip()[:40]) from None


def read_failure(
    log: str,
    job_file: str = PRINTED_JOB,
    job: CarriedJob | None = None,
    run: CarriedRun | None = None,
    *,
    strength: str = STRENGTHS[0],
    locks: str = "",
    exit_code: str = "",
    lang: Language = "en",
) -> CarriedDiagnosis:
    """The classifier's inputs, in one call to the core. Raises InputError or JobError."""
    if strength not in STRENGTHS:
        raise InputError("choice", input="strength", value=strength, choices=STRENGTHS)
    known = Known(exit_code=exit_code_of(exit_code))
    locked = [path for path in re.split(r"[,;\s]+", locks) if path]
    if run is not None:
        return _read_run(run, job or run.job, known, cast(Strength, strength), locked, lang)
    if log == NO_LOG and known.exit_code is None:
        raise InputError("no_log")
    source = b"" if log == NO_LOG else find(log, "log", places())
    if job is None and job_file != PRINTED_JOB:
        job = read_named_job(job_file)
    if job is None and isinstance(source, Path) and (kept := find_job(source)):
        job = CarriedJob(read_job_file(kept))
    try:
        found = recover(source, job.job if job else None, known, cast(Strength, strength), locked, lang)
    except OSError as error:
        raise InputError("log_unreadable", name=log, detail=error.strerror or type(error).__name__) from None
    return CarriedDiagnosis(found, masked=was_masked(log) if job is None else job.masked)


def _read_run(
    run: CarriedRun, job: CarriedJob, known: Known, strength: Strength, locks: list[str], lang: Language
) -> CarriedDiagnosis:
    """A run that is over, from its own log, exit code and events."""
    if known.exit_code is None:
        known = replace(known, exit_code=(run.run.result() or {}).get("exit_code"))
    try:
        found = recover(run.run.log, job.job, known, strength, locks, lang)
    except OSError as error:
        raise InputError("log_unreadable", name=run.run.log.name, detail=error.strerror or str(error)) from None
    diagnosis = with_events(found.diagnosis, read_events(run.run.events))
    return CarriedDiagnosis(replace(found, diagnosis=diagnosis), masked=job.masked)
