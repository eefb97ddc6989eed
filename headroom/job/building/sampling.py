"""The previews of a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...contracts import Job, Sentence, say
from ...guard.architectures import Architecture, architecture
from ..errors import wrong
from ..settings import Settings, settings
from .parts import Built, frames_of, given
from .start import with_keys


@dataclass(frozen=True)
class Sampling:
    """``every``: steps between previews, 0 for none at all. ``first``: previews before the first step too."""

    prompts: tuple[str, ...]
    every: int | None = None
    first: bool = True
    width: int | None = None
    height: int | None = None
    frames: int | None = None
    fps: int | None = None
    steps: int | None = None
    guidance: float | None = None
    seed: int | None = None
    walk_seed: bool | None = None
    negative: str | None = None
    image: Path | None = None


def set_sampling(job: Job, chosen: Sampling) -> Built:
    """The job with previews as chosen, or with none. Raises JobError where there is no prompt or no image it needs."""
    about = architecture(settings(job).architecture)
    if chosen.every == 0:
        return Built(with_keys(job, {"train.disable_sampling": True}), (say("building.said.no_previews"),))
    if not chosen.prompts:
        raise wrong("building.error.no_prompt")
    if about.preview_image.get("use") == "needed" and chosen.image is None:
        raise wrong("building.error.preview_image", model=about.label)
    frames, notes = frames_of(about, chosen.frames)
    if chosen.image and not about.preview_image:
        notes += (say("building.note.no_image", model=about.label),)
    image = {about.preview_image["key"]: str(chosen.image)} if chosen.image and about.preview_image else {}
    keys = {
        "train.skip_first_sample": not chosen.first,
        "train.disable_sampling": False,
        "sample.sample_every": chosen.every,
        "sample.width": chosen.width,
        "sample.height": chosen.height,
        "sample.samples": [{"prompt": prompt, **image} for prompt in chosen.prompts],
        "sample.neg": chosen.negative,
        "sample.seed": chosen.seed,
        "sample.walk_seed": chosen.walk_seed,
        "sample.guidance_scale": chosen.guidance,
        "sample.sample_steps": chosen.steps,
        "sample.num_frames": frames,
        "sample.fps": chosen.fps if about.frames else None,
    }
    job = with_keys(job, given(keys))
    if any("[trigger]" in prompt for prompt in chosen.prompts) and not settings(job).written("trigger_word"):
        notes += (say("building.note.no_trigger"),)
    return Built(job, (_said(job, about, chosen),), notes)


def prompts_of(text: str) -> tuple[str, ...]:
    """The prompts in a text: one a line, or, where lines of ``---`` stand between them, of any number of lines."""
    lines = [line.rstrip() for line in text.splitlines()]
    if "---" not in lines:
        return tuple(line.strip() for line in lines if line.strip())
    prompts, begun = [], 0
    for at in [*(at for at, line in enumerate(lines) if line == "---"), len(lines)]:
        prompts.append("\n".join(lines[begun:at]).strip())
        begun = at + 1
    return tuple(prompt for prompt in prompts if prompt)


def _said(job: Job, about: Architecture, chosen: Sampling) -> Sentence:
    used = settings(job)
    if about.kind == "audio":
        size = say("building.said.sound")
    elif used.get("sample.num_frames") > 1:
        size = say("building.said.clip_size", **_size(used), frames=used.get("sample.num_frames"))
    else:
        size = say("building.said.size", **_size(used))
    first = say(f"building.said.first_{'on' if chosen.first else 'off'}")
    return say(
        "building.said.previews",
        count=len(chosen.prompts),
        size=size,
        every=used.written("sample.sample_every"),
        steps=used.written("sample.sample_steps"),
        first=first,
    )


def _size(used: Settings) -> dict[str, Any]:
    return {"width": used.get("sample.width"), "height": used.get("sample.height")}
