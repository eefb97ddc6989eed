"""Levers that do work once and keep the result: text embeddings and latents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..situation import Situation
from .lever import Lever, Move


class TextEmbeddingCache(Lever):
    """Encode all captions once, then free the text encoder for the rest of the run.

    Not where the text encoder is trained, unloaded or needed otherwise, and for the architectures whose previews crash
    without it only when previews are off (``without_previews``: switch them off with it).
    Sources: toolkit/config_modules.py validate_configs, extensions_built_in/sd_trainer/SDTrainer.py.
    """

    name = "text_embedding_cache"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        effect = at.architecture.effect("cache_text_embeddings")
        if not at.text_encoder_stays or at.get("train.train_text_encoder") is True:
            return
        if any(at.settings.written(section) for section in self.entry["needs_the_text_encoder"]):
            return
        edit = self.set("train.cache_text_embeddings", True)
        previews_off = at.get("train.disable_sampling") is True
        if effect == "works" or (effect == "without_previews" and previews_off):
            yield (edit,)
        elif effect == "without_previews" and how.get("without_previews"):
            yield (edit, self.set("train.disable_sampling", True, "without_previews"))


class LatentCache(Lever):
    """Encode all pictures once: the VAE leaves the card. ``from_memory``: move latents from host RAM to disk.

    All datasets have to cache or the VAE stays; augmentations and random crops need the pictures.
    Sources: toolkit/config_modules.py DatasetConfig, toolkit/dataloader_mixins.py LatentCachingMixin.
    """

    name = "latent_cache"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        if how.get("from_memory"):
            yield from self._to_disk(at)
            return
        if at.architecture.effect("cache_latents") != "works":
            return
        needs_pictures = any(
            at.get(f"datasets[{index}].{key}") for index in at.datasets for key in self.entry["needs_the_pictures"]
        )
        missing = [index for index in at.datasets if not _cached(at, index)]
        if missing and not needs_pictures:
            yield tuple(self.set(f"datasets[{index}].cache_latents_to_disk", True, "all") for index in missing)

    def _to_disk(self, at: Situation) -> Iterator[Move]:
        edits = []
        for index in at.datasets:
            if at.get(f"datasets[{index}].cache_latents") is True:
                edits.append(self.set(f"datasets[{index}].cache_latents", False, "from_memory"))
                if at.get(f"datasets[{index}].cache_latents_to_disk") is not True:
                    edits.append(self.set(f"datasets[{index}].cache_latents_to_disk", True, "from_memory"))
        if edits:
            yield tuple(edits)


def _cached(at: Situation, index: int) -> bool:
    return any(at.get(f"datasets[{index}].cache_latents{to}") for to in ("", "_to_disk"))
