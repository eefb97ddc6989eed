"""Add a dataset to a job: which folder, how its pictures and clips are cut, and what is odd about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import configs
from ...contracts import Job, Sentence, say
from ...guard.architectures import Architecture, architecture
from ...media import Media, survey
from ..errors import wrong
from ..settings import settings
from .parts import Built, frames_of, given
from .start import new_dataset, with_dataset, with_keys

_NAMED = 3  # files that a sentence names


@dataclass(frozen=True)
class Dataset:
    """``frames``: of each clip, and ``whole_clips`` as many as it has. ``controls``: folders of control images."""

    folder: Path
    trigger_word: str = ""
    resolutions: tuple[int, ...] | None = None
    frames: int | None = None
    whole_clips: bool | None = None
    fps: int | None = None
    repeats: int = 1
    caption_extension: str = "txt"
    default_caption: str = ""
    caption_dropout: float | None = None
    cache_latents: bool | None = None
    flip_x: bool = False
    regularization: bool = False
    controls: tuple[Path, ...] = ()


def add_dataset(job: Job, chosen: Dataset) -> Built:
    """The job with a dataset more. Raises JobError where its folder holds nothing that this model can be trained on."""
    about = architecture(settings(job).architecture)
    dataset = new_dataset(about)
    frames, notes = frames_of(about, chosen.frames)
    dataset |= given(
        {
            "folder_path": str(chosen.folder),
            "default_caption": chosen.default_caption,
            "caption_ext": chosen.caption_extension,
            "caption_dropout_rate": chosen.caption_dropout,
            "cache_latents_to_disk": chosen.cache_latents,
            "is_reg": chosen.regularization,
            "resolution": None if chosen.resolutions is None else _resolutions(chosen.resolutions),
            "num_frames": frames,
            "flip_x": chosen.flip_x,
            "num_repeats": chosen.repeats,
            "fps": chosen.fps if about.frames else None,
            "auto_frame_count": chosen.whole_clips if "auto_frame_count" in about.form else None,
        }
    )
    notes += _put_controls(dataset, about, chosen.controls)
    word = chosen.trigger_word.strip()
    first_word = settings(job).written("trigger_word")
    if word and first_word not in (None, "", word):
        dataset["trigger_word"] = word  # this dataset's own: the job already has another (DatasetConfig)
    try:
        media = survey(chosen.folder, chosen.caption_extension)
    except OSError as error:
        raise wrong("building.error.folder", folder=chosen.folder.name, detail=error.strerror or str(error)) from None
    used = _usable(media, about, dataset, chosen)
    if word and not first_word:
        job = with_keys(job, {"trigger_word": word})
    notes += _media_notes(media, used, chosen, bool(word or first_word))
    said = say(
        "building.said.dataset",
        folder=chosen.folder.name,
        media=_counted(media, used),
        captioned=len(used) - len(set(used) & set(media.uncaptioned)),
        buckets=dataset["resolution"],
    )
    return Built(with_dataset(job, dataset), (said,), notes)


def resolutions_of(text: str) -> tuple[int, ...]:
    """The resolutions in a text (``512, 768``), without repeats; raises JobError for anything else."""
    found = []
    for word in text.replace(",", " ").split():
        if not (word.isascii() and word.isdigit()):
            raise wrong("building.error.resolution", value=word[:40], **configs.load("starting/choices")["resolution"])
        found.append(int(word[:9]))
    return tuple(_resolutions(tuple(dict.fromkeys(found))))


def _resolutions(wanted: tuple[int, ...]) -> list[int]:
    bounds = configs.load("starting/choices")["resolution"]
    for each in wanted:
        if not bounds["least"] <= each <= bounds["most"]:
            raise wrong("building.error.resolution", value=each, **bounds)
    if not wanted:
        raise wrong("building.error.resolution", value="", **bounds)
    return list(wanted)


def _put_controls(dataset: dict[str, Any], about: Architecture, folders: tuple[Path, ...]) -> tuple[Sentence, ...]:
    """Writes the control folders under the names that the form uses; says where there are none or too many."""
    taken = [key for key in dataset if key.startswith("control_path")]
    for key, folder in zip(taken, folders, strict=False):
        dataset[key] = str(folder)
    if len(folders) > len(taken):
        return (say("building.note.controls", model=about.label, count=len(taken)),)
    if about.kind == "edit" and not folders:
        return (say("building.note.no_controls", model=about.label),)
    return ()


def _usable(media: Media, about: Architecture, dataset: Mapping[str, Any], chosen: Dataset) -> tuple[str, ...]:
    """What AI Toolkit will train of a folder. Raises JobError where that is nothing."""
    folder = chosen.folder.name
    if media.garbled_captions:
        raise wrong("building.error.caption_encoding", files=_named(media.garbled_captions))
    if not media.all:
        raise wrong("building.error.empty", folder=folder)
    bad = set(media.unreadable)
    images = tuple(name for name in media.images if name not in bad)
    if about.kind == "audio":
        used = media.sounds
    elif dataset["num_frames"] > 1 or dataset.get("auto_frame_count"):
        used = media.clips + images
    else:
        used = images
        if media.clips and not used and about.frames:
            start = about.starts_with("sample.num_frames")
            raise wrong("building.error.frames", folder=folder, frames=max(start, about.frames.shortest_clip))
    if not used:
        key = "unreadable" if media.images and about.kind != "audio" and not images else "nothing_usable"
        raise wrong(f"building.error.{key}", folder=folder, model=about.label, holds=_counted(media, media.all))
    return used


def _media_notes(media: Media, used: tuple[str, ...], chosen: Dataset, trigger: bool) -> tuple[Sentence, ...]:
    notes = []
    if media.unreadable:
        notes.append(say("building.note.unreadable", files=_named(media.unreadable)))
    bare = [name for name in used if name in set(media.uncaptioned)]
    if bare and not chosen.default_caption.strip():
        key = "trigger_only" if trigger else "no_caption"
        which = say("building.files.all") if len(bare) == len(used) else _named(tuple(bare))
        notes.append(say(f"building.note.{key}", files=which))
    left_out = [name for name in media.all if name not in set(used) | set(media.unreadable)]
    if left_out:
        notes.append(say("building.note.left_out", files=_named(tuple(left_out))))
    for control in chosen.controls:
        with_control = {Path(name).stem for name in _names(control)}
        missing = tuple(name for name in used if Path(name).stem not in with_control)
        if missing:
            notes.append(say("building.note.control_missing", folder=control.name, files=_named(missing)))
    return tuple(notes)


def _names(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(path.name for path in folder.iterdir())
    except OSError as error:
        raise wrong("building.error.folder", folder=folder.name, detail=error.strerror or str(error)) from None


def _named(files: tuple[str, ...]) -> Sentence:
    """Some files by their names, and how many more there are."""
    if len(files) <= _NAMED:
        return say("building.files.some", files=files)
    return say("building.files.more", files=files[:_NAMED], more=len(files) - _NAMED)


def _counted(media: Media, used: tuple[str, ...]) -> Sentence:
    kept = set(used)
    counts = {
        kind: len(kept & set(names))
        for kind, names in (("image", media.images), ("clip", media.clips), ("sound", media.sounds))
    }
    return say(
        "building.files.counted", files=[say(f"building.files.{kind}", count=n) for kind, n in counts.items() if n]
    )
