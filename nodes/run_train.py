"""Train a job to the end with AI Toolkit, inside a memory budget."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from comfy_api.latest import io
from comfy_execution.graph_utils import ExecutionBlocker

from .diagnosis import language_input
from .errors import InputError, told_in
from .language import languages
from .sockets import CATEGORY, BudgetSocket, CarriedBudget, CarriedJob, JobSocket, RunSocket, advanced
from .wording import described

ON_FAILURE = ("report", "raise")
RESUME = ("resume", "fresh")
LARGEST_BUCKET = ("stop", "continue", "off")


def checked(**choices: tuple[str, tuple[str, ...]]) -> None:
    """Raises InputError for a choice that is none: ComfyUI before 0.4 does not check combos."""
    for name, (value, offered) in choices.items():
        if value not in offered:
            raise InputError("choice", input=name, value=value, choices=offered)


def fingerprint_of_runs(again: bool = False) -> str:
    """What a node that runs AI Toolkit answers when ComfyUI asks whether it may serve what it has cached."""
    from .run_cache import age

    return str(time.monotonic_ns()) if again else f"runs {age()}"


class HeadroomTrain(io.ComfyNode):
    """AI Toolkit trains the job; its LoRA, previews and losses come out."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return described(
            io.Schema(
                node_id="HeadroomTrain",
                category=CATEGORY,
                inputs=[
                    JobSocket.Input("job"),
                    BudgetSocket.Input("budget", optional=True),
                    io.Combo.Input("on_failure", options=list(ON_FAILURE), default=ON_FAILURE[0], optional=True),
                    io.Combo.Input("resume", options=list(RESUME), default=RESUME[0], optional=True),
                    io.Boolean.Input("save_on_cancel", default=False, optional=True),
                    advanced(io.Boolean.Input("train_again", default=False, optional=True)),
                    advanced(
                        io.Combo.Input(
                            "largest_bucket", options=list(LARGEST_BUCKET), default=LARGEST_BUCKET[0], optional=True
                        )
                    ),
                    language_input(),
                ],
                outputs=[
                    io.Custom("LORA_MODEL").Output("lora"),
                    io.String.Output("lora_name"),
                    RunSocket.Output("run"),
                    io.Image.Output("previews", is_output_list=True),
                    io.Video.Output("clips", is_output_list=True),
                    io.Custom("LOSS_MAP").Output("losses"),
                    io.Boolean.Output("finished"),
                    io.String.Output("report"),
                ],
                hidden=[io.Hidden.unique_id, io.Hidden.extra_pnginfo],
                is_output_node=True,
            )
        )

    @classmethod
    def fingerprint_inputs(cls, train_again: bool | None = False, **_: object) -> str:
        return fingerprint_of_runs(again=bool(train_again))

    @classmethod
    def execute(
        cls,
        job: CarriedJob,
        budget: CarriedBudget | None = None,
        on_failure: str = ON_FAILURE[0],
        resume: Any = RESUME[0],
        save_on_cancel: bool = False,
        train_again: bool = False,
        largest_bucket: Any = LARGEST_BUCKET[0],
        language: str = "auto",
    ) -> io.NodeOutput:
        from .run_node import carried_out
        from .run_outputs import last_previews, lora_file, lora_weights, losses, shown
        from .running import Order

        with told_in(languages(language)[0]):
            checked(
                on_failure=(on_failure, ON_FAILURE),
                resume=(resume, RESUME),
                largest_bucket=(largest_bucket, LARGEST_BUCKET),
            )
        order = Order(
            job.job,
            budget.budget if budget else None,
            resume=resume,
            force=train_again,
            largest_bucket=largest_bucket,
            save_on_cancel=save_on_cancel,
        )
        over = carried_out("HeadroomTrain", cls.hidden, job, order, language, must_finish=on_failure == "raise")
        nothing = ExecutionBlocker(None)
        if not over.finished or over.run.result.checkpoint is None:
            return io.NodeOutput(
                nothing, nothing, over.run, nothing, nothing, nothing, over.finished, over.report, ui=over.ui
            )
        lora = lora_file(Path(over.run.result.checkpoint))
        images, clips = shown(last_previews(over.events))
        made = losses(over.run.run)
        return io.NodeOutput(
            lora_weights(lora),
            over.loras[0],
            over.run,
            images or nothing,
            clips or nothing,
            {"loss": made} if made else nothing,
            True,
            over.report,
            ui=over.ui,
        )
