"""What the parts of a job have in common: what building one answers, and frames that a model takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...contracts import Job, Sentence, say
from ...guard.architectures import Architecture


@dataclass(frozen=True)
class Built:
    """A job with one more part, what that part now says, and what is worth knowing about it."""

    job: Job
    said: tuple[Sentence, ...] = ()
    notes: tuple[Sentence, ...] = ()


def given(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that something was chosen for."""
    return {path: value for path, value in keys.items() if value is not None}


def frames_of(about: Architecture, wanted: int | None) -> tuple[int | None, tuple[Sentence, ...]]:
    """The frames to write, and what is odd about them."""
    if wanted is None or (wanted == 1 and not about.frames):
        return wanted, ()
    if not about.frames:
        return None, (say("building.note.no_frames", model=about.label),)
    legal = about.frames.at_most(wanted)
    if wanted in (1, legal):
        return wanted, ()
    grid = about.frames
    rule = {"step": grid.step, "first": grid.first, "nearest": [legal, legal + grid.step]}
    return wanted, (say("building.note.frames", frames=wanted, model=about.label, **rule),)
