"""Build a job in the graph without YAML: each node adds its part to the job that comes in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import folder_paths
from comfy_api.latest import io

from ..headroom import configs
from ..headroom.guard.labels import labels
from .building_choices import AS_IT_STARTS, CONTROL_FOLDERS, SWITCH, TEXT_ENCODER, TEXT_WEIGHTS, WEIGHTS, Given
from .datasets import NO_CONTROL, NO_FOLDER, NO_IMAGE, fingerprint, folder_names, image_names
from .models import OWN, model_names, model_roots
from .sockets import CATEGORY, CarriedJob, JobSocket, advanced
from .wording import described

_FIRST = "zimage:turbo"  # small, open to everybody, and what most people train


def _input() -> Path:
    return Path(folder_paths.get_input_directory())


def _combo(name: str, options: list[str], default: str | None = None) -> io.Input:
    return io.Combo.Input(name, options=options, default=default or options[0], optional=True)


def _count(name: str, default: int = 0, most: int = 1_000_000, least: int = 0, step: int = 1) -> io.Input:
    return io.Int.Input(name, default=default, min=least, max=most, step=step, optional=True)


def _number(name: str, default: float, most: float, step: float, least: float = 0.0) -> io.Input:
    return io.Float.Input(name, default=default, min=least, max=most, step=step, round=step / 100, optional=True)


class HeadroomModel(io.ComfyNode):
    """A new job for a model, as AI Toolkit's form starts it."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        from ..headroom.places import model_cache

        by_label = labels()
        first = next(label for label, name in by_label.items() if name == _FIRST)
        return described(
            io.Schema(
                node_id="HeadroomModel",
                category=CATEGORY,
                inputs=[
                    io.Combo.Input("architecture", options=list(by_label), default=first),
                    _combo("model", model_names(model_roots(), model_cache())),
                    _combo("quantization", WEIGHTS),
                    _combo("low_vram", SWITCH),
                    advanced(_combo("text_encoder_quantization", TEXT_WEIGHTS)),
                    advanced(_count("layer_offloading", most=100)),
                ],
                outputs=[JobSocket.Output("built_job")],
                is_output_node=True,
            )
        )

    @classmethod
    def validate_inputs(cls, model: str = OWN) -> bool:
        return True  # find_model checks it, and says what to do; ComfyUI would only say "not in list"

    @classmethod
    def execute(cls, **inputs: Any) -> io.NodeOutput:
        from .building_parts import model_part

        return model_part(Given(inputs))


class HeadroomDataset(io.ComfyNode):
    """A dataset for the job: a folder of the input folder, files dropped on the node, or pictures of the graph."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        names = folder_names(_input())
        return described(
            io.Schema(
                node_id="HeadroomDataset",
                category=CATEGORY,
                inputs=[
                    JobSocket.Input("job"),
                    io.Combo.Input("folder", options=[NO_FOLDER, *names], default=NO_FOLDER),
                    io.Image.Input("images", optional=True),
                    io.String.Input("captions", optional=True, force_input=True),
                    io.String.Input("trigger_word", default="", optional=True),
                    io.String.Input("resolutions", default="512, 768, 1024", optional=True),
                    _count("frames", most=1001),
                    _count("repeats", default=1, least=1, most=10_000),
                    advanced(_combo("cache_latents", SWITCH)),
                    advanced(_combo("whole_clips", SWITCH)),
                    advanced(_count("fps", most=120)),
                    advanced(io.String.Input("default_caption", default="", optional=True)),
                    advanced(_number("caption_dropout", 0.05, 1.0, 0.01)),
                    advanced(_combo("caption_extension", configs.load("starting/choices")["caption_extension"])),
                    advanced(io.Boolean.Input("flip", default=False, optional=True)),
                    advanced(io.Boolean.Input("regularization", default=False, optional=True)),
                    *(advanced(_combo(name, [NO_CONTROL, *names])) for name in CONTROL_FOLDERS),
                ],
                outputs=[JobSocket.Output("built_job")],
                is_input_list=True,  # captions may come as a list, and pictures of several sizes too
                is_output_node=True,
            )
        )

    @classmethod
    def validate_inputs(
        cls,
        folder: list[str],
        control_folder: list[str] | None = None,
        control_folder_2: list[str] | None = None,
        control_folder_3: list[str] | None = None,
    ) -> bool:
        return True  # find_folder checks them, and says what to do; ComfyUI would only say "not in list"

    @classmethod
    def fingerprint_inputs(cls, **inputs: Any) -> str:
        given = Given(inputs, lists=True)
        return repr([fingerprint(given.text(name), _input()) for name in ("folder", *CONTROL_FOLDERS)])

    @classmethod
    def execute(
        cls, job: list[CarriedJob], images: Sequence[Any] = (), captions: Sequence[str] = (), **inputs: Any
    ) -> io.NodeOutput:
        from .building_parts import dataset_part

        return dataset_part(job[0], Given(inputs, lists=True), images, captions, _input())


class HeadroomTraining(io.ComfyNode):
    """How the job trains."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        form = configs.load("starting/choices")
        return described(
            io.Schema(
                node_id="HeadroomTraining",
                category=CATEGORY,
                inputs=[
                    JobSocket.Input("job"),
                    io.String.Input("name", default="my_first_lora_v1", optional=True),
                    _count("steps", default=3000, least=1, most=10_000_000),
                    io.String.Input("learning_rate", default=AS_IT_STARTS, optional=True),
                    _count("rank", most=1024),
                    _count("batch_size", default=1, least=1, most=1024),
                    _count("save_every", default=250, least=1),
                    advanced(_count("checkpoints_kept", default=4, least=1, most=10_000)),
                    advanced(_count("gradient_accumulation", default=1, least=1, most=1024)),
                    advanced(io.Boolean.Input("gradient_checkpointing", default=True, optional=True)),
                    advanced(_combo("optimizer", form["optimizer"], "adamw8bit")),
                    advanced(io.String.Input("weight_decay", default=AS_IT_STARTS, optional=True)),
                    advanced(_combo("timestep_type", [AS_IT_STARTS, *form["timestep_type"]])),
                    advanced(_combo("timestep_bias", list(form["timestep_bias"]))),
                    advanced(_combo("text_encoder", TEXT_ENCODER)),
                    advanced(io.Boolean.Input("ema", default=False, optional=True)),
                ],
                outputs=[JobSocket.Output("built_job")],
                is_output_node=True,
            )
        )

    @classmethod
    def execute(cls, job: CarriedJob, **inputs: Any) -> io.NodeOutput:
        from .building_parts import training_part

        return training_part(job, Given(inputs))


class HeadroomSampling(io.ComfyNode):
    """The previews of the job."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        prompts = "\n".join(configs.load("starting/choices")["prompts"])
        return described(
            io.Schema(
                node_id="HeadroomSampling",
                category=CATEGORY,
                inputs=[
                    JobSocket.Input("job"),
                    io.String.Input("prompts", multiline=True, default=prompts),
                    _count("every", default=250),
                    _count("width", most=8192, step=8),
                    _count("height", most=8192, step=8),
                    _count("frames", most=1001),
                    io.Int.Input("seed", default=42, min=0, max=2**32 - 1, control_after_generate=False, optional=True),
                    _number("guidance", -1.0, 100.0, 0.1, least=-1.0),
                    advanced(_count("steps", most=1000)),
                    advanced(io.Boolean.Input("before_training", default=True, optional=True)),
                    advanced(io.Boolean.Input("walk_seed", default=True, optional=True)),
                    advanced(io.String.Input("negative", default="", optional=True)),
                    advanced(_count("fps", most=120)),
                    advanced(_combo("image", [NO_IMAGE, *image_names(_input())])),
                ],
                outputs=[JobSocket.Output("built_job")],
                is_output_node=True,
            )
        )

    @classmethod
    def validate_inputs(cls, image: str = NO_IMAGE) -> bool:
        return True  # find_image checks it, and says what to do; ComfyUI would only say "not in list"

    @classmethod
    def execute(cls, job: CarriedJob, **inputs: Any) -> io.NodeOutput:
        from .building_parts import sampling_part

        return sampling_part(job, Given(inputs), _input())
