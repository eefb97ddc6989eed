"""Find out whether a job loads, before hours are spent on it."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io
from comfy_execution.graph_utils import ExecutionBlocker

from .diagnosis import language_input
from .errors import told_in
from .language import languages
from .run_train import checked, fingerprint_of_runs
from .sockets import CATEGORY, BudgetSocket, CarriedBudget, CarriedJob, JobSocket, RunSocket
from .wording import described

UNTIL = ("load", "cache", "baseline_sample")


class HeadroomLoadCheck(io.ComfyNode):
    """AI Toolkit carries the job out to the end of a phase before training, and what it took is said."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return described(
            io.Schema(
                node_id="HeadroomLoadCheck",
                category=CATEGORY,
                inputs=[
                    JobSocket.Input("job"),
                    BudgetSocket.Input("budget", optional=True),
                    io.Combo.Input("until", options=list(UNTIL), default=UNTIL[0], optional=True),
                    language_input(),
                ],
                outputs=[
                    JobSocket.Output("checked_job"),
                    RunSocket.Output("run"),
                    io.Boolean.Output("fits"),
                    io.String.Output("report"),
                ],
                hidden=[io.Hidden.unique_id, io.Hidden.extra_pnginfo],
                is_output_node=True,
            )
        )

    @classmethod
    def fingerprint_inputs(cls, **_: object) -> str:
        return fingerprint_of_runs()

    @classmethod
    def execute(
        cls, job: CarriedJob, budget: CarriedBudget | None = None, until: Any = UNTIL[0], language: str = "auto"
    ) -> io.NodeOutput:
        from .run_node import carried_out
        from .running import Order

        with told_in(languages(language)[0]):
            checked(until=(until, UNTIL))
        order = Order(job.job, budget.budget if budget else None, until=until)
        over = carried_out("HeadroomLoadCheck", cls.hidden, job, order, language)
        passed_on = job if over.finished else ExecutionBlocker(None)
        return io.NodeOutput(passed_on, over.run, over.finished, over.report, ui=over.ui)
