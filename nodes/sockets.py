"""What travels on Headroom's wires, and a small addition to ComfyUI's inputs.

ComfyUI puts ``repr`` of a value into error reports and its history, so these show no text of a job or log.
Modules that ComfyUI imports when it starts import the core where they use it: its start must not wait for us.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from comfy_api.latest import io

if TYPE_CHECKING:
    from ..headroom.contracts import Budget, Job, RunResult
    from ..headroom.recovery import Recovery
    from ..headroom.run.store import Run

JobSocket = io.Custom("HEADROOM_JOB")
DiagnosisSocket = io.Custom("HEADROOM_DIAGNOSIS")
BudgetSocket = io.Custom("HEADROOM_BUDGET")
RunSocket = io.Custom("HEADROOM_RUN")
CATEGORY = "AI Toolkit/Headroom"

AnyInput = TypeVar("AnyInput", bound=io.Input)


@dataclass(frozen=True, repr=False)
class CarriedJob:
    """A job, and the job it was corrected from where it was. ``masked``: secrets were taken out when it was pasted."""

    job: Job
    before: Job | None = None
    masked: bool = False

    def __repr__(self) -> str:
        return f"<AI Toolkit job, {len(self.job.text.splitlines())} lines{', corrected' if self.before else ''}>"


@dataclass(frozen=True, repr=False)
class CarriedDiagnosis:
    """A failure that was read. ``masked``: the job came from pasted text that secrets were taken out of."""

    recovery: Recovery
    masked: bool = False

    @property
    def corrected_job(self) -> CarriedJob | None:
        """The job to run next, with the one it was corrected from; ``None`` where no job is known."""
        job, corrected = self.recovery.job, self.recovery.correction.job
        if corrected is None:
            return None
        return CarriedJob(corrected, job if self.recovery.correction.changes else None, self.masked)

    def __repr__(self) -> str:
        found = self.recovery.diagnosis
        return f"<diagnosis: {found.cause} in {found.stage}, {found.advice}>"


@dataclass(frozen=True, repr=False)
class CarriedBudget:
    """What a run may take."""

    budget: Budget

    def __repr__(self) -> str:
        most = self.budget.vram_gib
        return f"<memory budget: {'no cap' if most is None else f'{most:.3g} GiB'}>"


@dataclass(frozen=True, repr=False)
class CarriedRun:
    """A run that is over: where it is kept, how it ended, and the job as it came over the wire."""

    run: Run
    result: RunResult
    job: CarriedJob

    def __repr__(self) -> str:
        return f"<run {self.run.folder.parent.name}/{self.run.folder.name}, {self.result.outcome}>"


def advanced(widget: AnyInput) -> AnyInput:
    """The input, folded away by frontends that can; others show it. Older ComfyUI has no argument for it."""
    widget.extra_dict = {**(widget.extra_dict or {}), "advanced": True}
    return widget
