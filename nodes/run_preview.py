"""Look at a LoRA with AI Toolkit's own previews, for every architecture it trains."""

from __future__ import annotations

from pathlib import Path

import folder_paths
from comfy_api.latest import io
from comfy_execution.graph_utils import ExecutionBlocker

from .diagnosis import language_input
from .errors import InputError, told_in
from .language import languages
from .run_train import fingerprint_of_runs
from .sockets import CATEGORY, BudgetSocket, CarriedBudget, CarriedJob, CarriedRun, JobSocket, RunSocket
from .wording import described

NO_LORA = "(the run's own, or none)"


class HeadroomPreviewSample(io.ComfyNode):
    """AI Toolkit's previews of a job with a LoRA, without training."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return described(
            io.Schema(
                node_id="HeadroomPreviewSample",
                category=CATEGORY,
                inputs=[
                    JobSocket.Input("job", optional=True),
                    RunSocket.Input("run", optional=True),
                    io.Combo.Input(
                        "lora_name", options=[NO_LORA, *folder_paths.get_filename_list("loras")], default=NO_LORA
                    ),
                    io.String.Input("prompts", default="", multiline=True),
                    BudgetSocket.Input("budget", optional=True),
                    language_input(),
                ],
                outputs=[
                    io.Image.Output("previews", is_output_list=True),
                    io.Video.Output("clips", is_output_list=True),
                    RunSocket.Output("preview_run"),
                    io.String.Output("report"),
                ],
                hidden=[io.Hidden.unique_id, io.Hidden.extra_pnginfo],
                is_output_node=True,
            )
        )

    @classmethod
    def validate_inputs(cls, lora_name: str) -> bool:
        return True  # _lora checks it; a LoRA that was just trained is not in the list that the page has

    @classmethod
    def fingerprint_inputs(cls, **_: object) -> str:
        return fingerprint_of_runs()

    @classmethod
    def execute(
        cls,
        lora_name: str,
        prompts: str,
        job: CarriedJob | None = None,
        run: CarriedRun | None = None,
        budget: CarriedBudget | None = None,
        language: str = "auto",
    ) -> io.NodeOutput:
        from ..headroom.job.sampling import sampling_job
        from .run_node import carried_out
        from .run_outputs import last_previews, shown
        from .running import Order

        with told_in(languages(language)[0]):
            carried = job or (run.job if run else None)
            if carried is None:
                raise InputError("no_job_to_preview")
            asked = [line.strip() for line in prompts.splitlines() if line.strip()]
            wanted = sampling_job(carried.job, _lora(lora_name, run), asked)
        order = Order(wanted, budget.budget if budget else None, until="baseline_sample")
        over = carried_out("HeadroomPreviewSample", cls.hidden, carried, order, language, must_finish=True)
        images, clips = shown(last_previews(over.events))
        nothing = ExecutionBlocker(None)
        return io.NodeOutput(images or nothing, clips or nothing, over.run, over.report, ui=over.ui)


def _lora(name: str, run: CarriedRun | None) -> Path | None:
    """The file of the LoRA that was chosen, else the run's. Raises InputError."""
    from .run_outputs import lora_file

    if name != NO_LORA:
        file = folder_paths.get_full_path("loras", name)
        if file is None:
            raise InputError("no_such_lora", name=name[:200])
        return Path(file)
    if run is None:
        return None
    if run.result.checkpoint is None:
        raise InputError("no_checkpoint", run=run.run.folder.parent.name)
    return lora_file(Path(run.result.checkpoint))
