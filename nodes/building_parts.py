"""What the job-building nodes do with their values: one call into the core each, and what it said for the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from comfy_api.latest import io

from ..headroom import configs
from ..headroom.contracts import Sentence, say
from ..headroom.guard.labels import labels
from ..headroom.job.building import (
    Built,
    Dataset,
    Model,
    Sampling,
    Training,
    add_dataset,
    prompts_of,
    resolutions_of,
    set_sampling,
    set_training,
    start_job,
)
from ..headroom.report.wording import words
from .building_choices import ADAPTER, CONTROL_FOLDERS, TEXT_ENCODER, TEXT_WEIGHTS, WEIGHTS, Given
from .datasets import NO_CONTROL, NO_FOLDER, NO_IMAGE, find_folder, find_image, keep_pictures
from .errors import InputError, told_in
from .language import languages
from .models import OWN, find_model, model_roots
from .sockets import CarriedJob


def model_part(given: Given) -> io.NodeOutput:
    """A new job. Raises ValueError, in the reader's language, for what cannot be."""
    from ..headroom.places import model_cache

    with told_in(languages("auto")[0]):
        label = given.text("architecture")
        if label not in labels():
            raise InputError("no_such_architecture", name=label[:80])
        weights = given.choice("quantization", WEIGHTS) or ""
        chosen = Model(
            architecture=labels()[label],
            name_or_path=find_model(given.text("model") or OWN, model_roots(), model_cache()),
            low_vram=given.switch("low_vram"),
            quantization=None if weights.endswith(ADAPTER) else weights or None,
            adapter=weights.removesuffix(ADAPTER) if weights.endswith(ADAPTER) else None,
            text_encoder_quantization=given.choice("text_encoder_quantization", TEXT_WEIGHTS),
            layer_offloading=given.number("layer_offloading") or 0,
        )
        return _shown(start_job(chosen))


def dataset_part(
    job: CarriedJob, given: Given, images: Sequence[Any], captions: Sequence[str], root: Path
) -> io.NodeOutput:
    """The job with a dataset more; ``images`` and ``captions`` as the wires brought them. Raises ValueError."""
    with told_in(languages("auto")[0]):
        folder, notes = _folder(given.text("folder"), images, captions, root)
        controls = [given.text(name) for name in CONTROL_FOLDERS]
        chosen = Dataset(
            folder=folder,
            trigger_word=given.text("trigger_word"),
            resolutions=resolutions_of(given.text("resolutions")) if given.text("resolutions").strip() else None,
            frames=given.number("frames", 0),
            whole_clips=given.switch("whole_clips"),
            fps=given.number("fps", 0),
            repeats=given.number("repeats") or 1,
            caption_extension=given.text("caption_extension") or "txt",
            default_caption=given.text("default_caption"),
            caption_dropout=given.number("caption_dropout"),
            cache_latents=given.switch("cache_latents"),
            flip_x=given.flag("flip"),
            regularization=given.flag("regularization"),
            controls=tuple(find_folder(name, root) for name in controls if name not in ("", NO_CONTROL)),
        )
        return _shown(add_dataset(job.job, chosen), job, notes)


def training_part(job: CarriedJob, given: Given) -> io.NodeOutput:
    """The job with its training set. Raises ValueError."""
    form = configs.load("starting/choices")
    with told_in(languages("auto")[0]):
        chosen = Training(
            name=given.text("name"),
            steps=given.number("steps"),
            learning_rate=given.small("learning_rate"),
            rank=given.number("rank", 0),
            batch_size=given.number("batch_size"),
            save_every=given.number("save_every"),
            checkpoints_kept=given.number("checkpoints_kept"),
            gradient_accumulation=given.number("gradient_accumulation"),
            gradient_checkpointing=given.flag("gradient_checkpointing", True),
            optimizer=given.choice("optimizer", form["optimizer"]),
            weight_decay=given.small("weight_decay"),
            timestep_type=given.choice("timestep_type", form["timestep_type"]),
            timestep_bias=given.choice("timestep_bias", list(form["timestep_bias"])),
            text_encoder=given.choice("text_encoder", TEXT_ENCODER),
            ema=given.flag("ema"),
        )
        return _shown(set_training(job.job, chosen), job)


def sampling_part(job: CarriedJob, given: Given, root: Path) -> io.NodeOutput:
    """The job with its previews set. Raises ValueError."""
    with told_in(languages("auto")[0]):
        image = given.text("image")
        chosen = Sampling(
            prompts=prompts_of(given.text("prompts")),
            every=given.number("every"),
            first=given.flag("before_training", True),
            width=given.number("width", 0),
            height=given.number("height", 0),
            frames=given.number("frames", 0),
            fps=given.number("fps", 0),
            steps=given.number("steps", 0),
            guidance=given.number("guidance", -1),
            seed=given.number("seed"),
            walk_seed=given.flag("walk_seed", True),
            negative=given.text("negative") or None,
            image=None if image in ("", NO_IMAGE) else find_image(image, root),
        )
        return _shown(set_sampling(job.job, chosen), job)


def _folder(name: str, images: Sequence[Any], captions: Sequence[str], root: Path) -> tuple[Path, tuple[Sentence, ...]]:
    """The dataset's folder: of the connected pictures, else the chosen one."""
    pictures = [batch for batch in images if batch is not None]
    if pictures:
        kept = find_folder(keep_pictures(pictures, [text for text in captions if text is not None], root), root)
        unused = name not in ("", NO_FOLDER)
        return kept, (say("building.note.folder_unused", folder=name),) if unused else ()
    if name in ("", NO_FOLDER):
        raise InputError("no_folder")
    if captions:
        raise InputError("captions_alone")
    return find_folder(name, root), ()


def _shown(built: Built, before: CarriedJob | None = None, notes: tuple[Sentence, ...] = ()) -> io.NodeOutput:
    """The job for the next node, and what the page shows of it, once per language."""
    panels = [
        {
            "kind": "built",
            "lang": lang,
            "said": [words(sentence, lang) for sentence in built.said],
            "notes": [words(sentence, lang) for sentence in (*notes, *built.notes)],
        }
        for lang in languages("auto")
    ]
    carried = CarriedJob(built.job, masked=before.masked if before else False)
    return io.NodeOutput(carried, ui={"headroom": panels})
