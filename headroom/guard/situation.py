"""What a lever sees: the job, its architecture, and the failure it has to answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..contracts import Cause, Diagnosis, Media, Stage, Strength
from ..job import Preview, Settings, previews
from .architectures import Architecture, architecture

# The phases whose peak a lever may lower. A cache failure is one of text or of latents; what a save needs comes on top
# of what training holds.
_PHASES: dict[Stage, frozenset[str]] = {
    "startup": frozenset({"load"}),
    "load": frozenset({"load"}),
    "baseline_sample": frozenset({"preview"}),
    "sample": frozenset({"preview"}),
    "train": frozenset({"train"}),
    "save": frozenset({"save", "train"}),
    "unknown": frozenset({"load", "cache_text", "cache_latents", "preview", "train", "save"}),
}
# Causes that lie with the machine and not with the card; a job may ask less of it all the same.
HOST_CAUSES = ("shared_memory", "pinned_memory", "host_ram", "page_file")


@dataclass(frozen=True)
class Situation:
    """A job that failed, and where. ``inside`` as in ``Diagnosis``."""

    settings: Settings
    stage: Stage
    cause: Cause
    inside: str = ""
    strength: Strength = "next"

    @classmethod
    def of(cls, settings: Settings, diagnosis: Diagnosis, strength: Strength) -> Situation:
        """The situation that a diagnosis describes."""
        return cls(settings, diagnosis.stage, diagnosis.cause, diagnosis.inside, strength)

    def get(self, path: str) -> Any:
        """What AI Toolkit would use."""
        return self.settings.get(path)

    @cached_property
    def architecture(self) -> Architecture:
        return architecture(self.settings.architecture)

    @property
    def datasets(self) -> range:
        return range(self.settings.datasets)

    @cached_property
    def previews(self) -> tuple[Preview, ...]:
        """The previews that the job makes in the phase that failed; a baseline may have its own section."""
        if self.get("train.disable_sampling") is True:
            return ()
        found = previews(self.settings)
        if self.settings.has("first_sample") and self.stage != "sample":
            found += previews(self.settings, "first_sample")
        return found

    @cached_property
    def caching(self) -> tuple[str, ...]:
        """What a failure while caching fell in: ``text``, ``latents``, or both where the job does both."""
        if self.inside in ("text", "latents"):
            return (self.inside,)
        text = self.caches_text or self.get("train.unload_text_encoder") is True
        latents = any(self.get(f"datasets[{at}].cache_latents{to}") for at in self.datasets for to in ("", "_to_disk"))
        return ("text",) if text and not latents else ("latents",) if latents and not text else ("text", "latents")

    @property
    def caches_text(self) -> bool:
        """Whether text embeddings are cached: AI Toolkit asks for all datasets or none, the trainer's switch is all."""
        return any(self.get(f"datasets[{at}].cache_text_embeddings") for at in self.datasets) or (
            self.get("train.cache_text_embeddings") is True
        )

    @cached_property
    def phases(self) -> frozenset[str]:
        """The phases that a lever has to lower here."""
        if self.cause in HOST_CAUSES:
            return frozenset({"host"})
        if self.stage == "cache":
            return frozenset(f"cache_{what}" for what in self.caching)
        return _PHASES["unknown" if self.load_is_all_weights else self.stage]

    @property
    def load_is_all_weights(self) -> bool:
        """Whether a load failed of which no memory setting but the precision changes anything.

        What moves weights to the card moves them again later, next to more, so the ordinary ladder answers too.
        """
        loading = self.stage in ("load", "startup") and self.cause not in HOST_CAUSES
        return loading and self.architecture.memory.get("load", "plain") == "plain"

    @cached_property
    def media(self) -> Media:
        """Video where the datasets, or for a failed preview the previews, have more than one frame."""
        if self.phases == {"preview"}:
            frames: Sequence[Any] = [preview.num_frames for preview in self.previews]
        else:
            frames = [self.get(f"datasets[{at}].num_frames") for at in self.datasets]
            if any(self.get(f"datasets[{at}].auto_frame_count") for at in self.datasets):
                return "video"
        return "video" if any(isinstance(count, int) and count > 1 for count in frames) else "image"

    @property
    def trains_an_adapter(self) -> bool:
        """Whether the model itself stays frozen: without a network, AI Toolkit trains its own weights."""
        return isinstance(self.settings.written("network"), dict)

    @property
    def text_encoder_stays(self) -> bool:
        """Whether the text encoder is on the card during training."""
        return not self.caches_text and self.get("train.unload_text_encoder") is not True


def whole(value: Any) -> int | None:
    """A setting as a whole number, or ``None`` where it is none: a placeholder, a truth value, a text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if math.isfinite(value) and value == int(value) else None
