"""How a job trains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import configs
from ...contracts import Job, Sentence, say
from ...guard.architectures import Architecture, architecture
from ..errors import wrong
from ..settings import settings
from ..stranger import is_job_name
from .parts import Built, given
from .start import with_keys, with_name


@dataclass(frozen=True)
class Training:
    """``text_encoder``: ``cache`` its embeddings, ``unload`` it (captions are then ignored) or ``keep`` it."""

    name: str = ""
    steps: int | None = None
    learning_rate: float | None = None
    rank: int | None = None
    batch_size: int | None = None
    save_every: int | None = None
    checkpoints_kept: int | None = None
    gradient_accumulation: int | None = None
    gradient_checkpointing: bool | None = None
    optimizer: str | None = None
    weight_decay: float | None = None
    timestep_type: str | None = None
    timestep_bias: str | None = None
    text_encoder: str | None = None
    ema: bool | None = None


def set_training(job: Job, chosen: Training) -> Built:
    """The job with what is chosen of its training. Raises JobError for a name no folder can have, among others."""
    about = architecture(settings(job).architecture)
    name = chosen.name.strip()
    if name and not is_job_name(name):
        raise wrong("stranger.name", name=name[:80])
    biases = configs.load("starting/choices")["timestep_bias"]
    keys = {
        "network.linear": chosen.rank,
        "network.linear_alpha": chosen.rank,
        "save.save_every": chosen.save_every,
        "save.max_step_saves_to_keep": chosen.checkpoints_kept,
        "train.batch_size": chosen.batch_size,
        "train.steps": chosen.steps,
        "train.gradient_accumulation": chosen.gradient_accumulation,
        "train.gradient_checkpointing": chosen.gradient_checkpointing,
        "train.optimizer": chosen.optimizer,
        "train.timestep_type": chosen.timestep_type,
        "train.content_or_style": biases.get(chosen.timestep_bias),
        "train.optimizer_params.weight_decay": chosen.weight_decay,
        "train.lr": chosen.learning_rate,
        "train.ema_config.use_ema": chosen.ema,
    }
    if chosen.text_encoder:
        keys |= {
            "train.unload_text_encoder": chosen.text_encoder == "unload",
            "train.cache_text_embeddings": chosen.text_encoder == "cache",
        }
    job = with_keys(job, given(keys))
    if name and name != job.data["config"]["name"]:
        job = with_name(job, name)
    used = settings(job)
    said = say(
        "building.said.training",
        name=job.data["config"]["name"],
        steps=used.get("train.steps"),
        rate=f"{used.get('train.lr'):g}",
        rank=used.get("network.linear"),
        batch=used.get("train.batch_size"),
        optimizer=used.get("train.optimizer"),
        every=used.get("save.save_every"),
    )
    return Built(job, (said,), tuple(_notes(job, about, chosen)))


def _notes(job: Job, about: Architecture, chosen: Training) -> Iterator[Sentence]:
    cache, unload = about.effect("cache_text_embeddings"), about.effect("unload_text_encoder")
    if chosen.text_encoder == "cache" and cache == "broken":
        raise wrong("building.error.cache_text", model=about.label)
    if chosen.text_encoder == "unload" and unload == "refused":
        raise wrong("building.error.unload_text", model=about.label)
    if chosen.text_encoder == "cache" and cache == "without_previews":
        yield say("building.note.cache_without_previews", model=about.label)
    if chosen.text_encoder == "unload":
        yield say("building.note.unload")
    if not settings(job).datasets:
        yield say("building.note.no_dataset")
