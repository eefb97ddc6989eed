"""Read a failed run, correct its job, and show what was found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast, get_args

from comfy_api.latest import io

from ..headroom.contracts import Known, Strength
from ..headroom.job import read_job_file
from ..headroom.recovery import recover
from ..headroom.report.masking import masked
from ..headroom.report.report import report
from . import panels
from .errors import InputError, told_in
from .jobs import read_named_job
from .language import CHOICES, Language, languages
from .pasted import was_masked
from .places import places
from .sockets import CATEGORY, CarriedDiagnosis, CarriedJob, DiagnosisSocket, JobSocket, advanced
from .sources import NO_LOG, PRINTED_JOB, find, fingerprint, names
from .wording import described

STRENGTHS = get_args(Strength)


def exit_code_of(text: str) -> int | None:
    """The exit code somebody wrote, decimal or 0x…; ``None`` for nothing. Raises InputError."""
    if not text.strip():
        return None
    try:
        return int(text.strip(), 0)
    except ValueError:
        raise InputError("exit_code", value=text.strip()[:40]) from None


def read_failure(
    log: str, job_file: str, job: CarriedJob | None, *, known: Known, strength: str, locks: str, lang: Language
) -> CarriedDiagnosis:
    """What the classifier's inputs name, in one call to the core. Raises InputError or JobError."""
    if strength not in STRENGTHS:
        raise InputError("choice", input="strength", value=strength, choices=STRENGTHS)
    if log == NO_LOG and known.exit_code is None:
        raise InputError("no_log")
    source = b"" if log == NO_LOG else find(log, "log", places())
    if job is None and job_file != PRINTED_JOB:
        job = read_named_job(job_file)
    if job is None and isinstance(source, Path) and (kept := source / ".job_config.json").is_file():
        job = CarriedJob(read_job_file(kept))
    locked = [path for path in re.split(r"[,;\s]+", locks) if path]
    try:
        found = recover(source, job.job if job else None, known, cast(Strength, strength), locked, lang)
    except OSError as error:
        raise InputError("log_unreadable", name=log, detail=error.strerror or type(error).__name__) from None
    return CarriedDiagnosis(found, masked=was_masked(log) if job is None else job.masked)


def language_input() -> io.Input:
    """The language of a report, the same on every node that shows one."""
    return advanced(io.Combo.Input("language", options=list(CHOICES), default="auto"))


class HeadroomOOMClassifier(io.ComfyNode):
    """A failed run goes in, a diagnosis and a corrected job come out."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        allowed = places()
        return described(
            io.Schema(
                node_id="HeadroomOOMClassifier",
                category=CATEGORY,
                inputs=[
                    io.Combo.Input("log", options=[NO_LOG, *names("log", allowed)], default=NO_LOG),
                    io.Combo.Input("job_file", options=[PRINTED_JOB, *names("job", allowed)], default=PRINTED_JOB),
                    io.Combo.Input("strength", options=list(STRENGTHS), default="next"),
                    JobSocket.Input("job", optional=True),
                    advanced(io.String.Input("locks", default="", optional=True)),
                    advanced(io.String.Input("exit_code", default="", optional=True)),
                    language_input(),
                ],
                outputs=[
                    JobSocket.Output("corrected_job"),
                    DiagnosisSocket.Output("diagnosis"),
                    io.String.Output("report"),
                    io.Boolean.Output("safe_to_retry"),
                ],
                is_output_node=True,
            )
        )

    @classmethod
    def fingerprint_inputs(cls, log: str, job_file: str, language: str = "auto", **_: object) -> str:
        allowed = places()
        return repr((fingerprint(log, "log", allowed), fingerprint(job_file, "job", allowed), languages(language)))

    @classmethod
    def execute(
        cls,
        *,
        log: str,
        job_file: str = PRINTED_JOB,
        strength: str = "next",
        job: CarriedJob | None = None,
        locks: str = "",
        exit_code: str = "",
        language: str = "auto",
    ) -> io.NodeOutput:
        lang, *_ = shown = languages(language)
        with told_in(lang):
            known = Known(exit_code=exit_code_of(exit_code))
            diagnosis = read_failure(log, job_file, job, known=known, strength=strength, locks=locks, lang=lang)
        found = diagnosis.recovery
        text = masked(report(found, lang))
        panel = panels.diagnosis_panel(diagnosis, shown)
        return io.NodeOutput(diagnosis.corrected_job, diagnosis, text, found.safe_to_retry, ui=panel)


class HeadroomShowDiagnosis(io.ComfyNode):
    """A diagnosis from another node, readable."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return described(
            io.Schema(
                node_id="HeadroomShowDiagnosis",
                category=CATEGORY,
                inputs=[DiagnosisSocket.Input("diagnosis"), language_input()],
                outputs=[io.String.Output("report")],
                is_output_node=True,
            )
        )

    @classmethod
    def execute(cls, diagnosis: CarriedDiagnosis, language: str = "auto") -> io.NodeOutput:
        shown = languages(language)
        text = masked(report(diagnosis.recovery, shown[0]))
        return io.NodeOutput(text, ui=panels.diagnosis_panel(diagnosis, shown))
