"""Put a run's LoRA onto a model, without choosing a file: core's own loader takes no link for its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comfy_api.latest import io

from .errors import InputError, told_in
from .language import languages
from .sockets import CATEGORY, CarriedRun, RunSocket
from .wording import described

PARTS = ("high noise", "low noise")


def strength_input(name: str) -> io.Input:
    """How strongly a LoRA changes a model."""
    return io.Float.Input(name, default=1.0, min=-100.0, max=100.0, step=0.01)


class HeadroomApplyLoRA(io.ComfyNode):
    """The LoRA that a run trained, on a model and its text encoder."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return described(
            io.Schema(
                node_id="HeadroomApplyLoRA",
                category=CATEGORY,
                inputs=[
                    io.Model.Input("model"),
                    RunSocket.Input("run"),
                    io.Clip.Input("clip", optional=True),
                    strength_input("strength_model"),
                    strength_input("strength_clip"),
                    io.Combo.Input("part", options=list(PARTS), default=PARTS[0], optional=True),
                ],
                outputs=[io.Model.Output("changed_model"), io.Clip.Output("changed_clip")],
            )
        )

    @classmethod
    def execute(
        cls,
        model: Any,
        run: CarriedRun,
        strength_model: float,
        strength_clip: float,
        clip: Any = None,
        part: str = PARTS[0],
    ) -> io.NodeOutput:
        import comfy.sd

        from .run_outputs import lora_file, lora_weights

        with told_in(languages("auto")[0]):
            if part not in PARTS:
                raise InputError("choice", input="part", value=part, choices=PARTS)
            if run.result.checkpoint is None:
                raise InputError("no_checkpoint", run=run.run.folder.parent.name)
            file = lora_file(Path(run.result.checkpoint), part)
        changed = comfy.sd.load_lora_for_models(model, clip, lora_weights(file), strength_model, strength_clip)
        return io.NodeOutput(*changed)
