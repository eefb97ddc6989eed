"""Read a failed run, correct its job, and show what was found."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from .errors import told_in
from .language import CHOICES, languages
from .places import places
from .sockets import CATEGORY, CarriedDiagnosis, DiagnosisSocket, JobSocket, RunSocket, advanced
from .sources import NO_LOG, PRINTED_JOB, STRENGTHS, fingerprint, names
from .wording import described


def language_input() -> io.Input:
    """The language of a report, the same on every node that shows one."""
    return advanced(io.Combo.Input("language", options=list(CHOICES), default="auto", optional=True))


class HeadroomOOMClassifier(io.ComfyNode):
    """A failed run goes in, a diagnosis and a corrected job come out."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        logs, jobs = names("log", places()), names("job", places())
        return described(
            io.Schema(
                node_id="HeadroomOOMClassifier",
                category=CATEGORY,
                inputs=[
                    io.Combo.Input("log", options=[NO_LOG, *logs], default=NO_LOG),
                    io.Combo.Input("job_file", options=[PRINTED_JOB, *jobs], default=PRINTED_JOB, optional=True),
                    JobSocket.Input("job", optional=True),
                    RunSocket.Input("run", optional=True),
                    io.Combo.Input("strength", options=list(STRENGTHS), default=STRENGTHS[0], optional=True),
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
    def validate_inputs(cls, log: str, job_file: str = PRINTED_JOB) -> bool:
        return True  # read_failure checks both, and says what to do; ComfyUI would only say "not in list"

    @classmethod
    def fingerprint_inputs(
        cls, log: str | None, job_file: str | None = PRINTED_JOB, language: str | None = "auto", **_: object
    ) -> str:
        files = (fingerprint(log, "log", places()), fingerprint(job_file, "job", places()))
        return repr((*files, languages(language or "auto")))

    @classmethod
    def execute(cls, language: str = "auto", **inputs: Any) -> io.NodeOutput:
        from .panels import diagnosis_panel, plain_report
        from .reading import read_failure

        shown = languages(language)
        with told_in(shown[0]):
            read = read_failure(**inputs, lang=shown[0])
        outputs = (read.corrected_job, read, plain_report(read, shown[0]), read.recovery.safe_to_retry)
        return io.NodeOutput(*outputs, ui=diagnosis_panel(read, shown))


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
        from .panels import diagnosis_panel, plain_report

        shown = languages(language)
        return io.NodeOutput(plain_report(diagnosis, shown[0]), ui=diagnosis_panel(diagnosis, shown))
