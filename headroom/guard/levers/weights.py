"""Levers on what the weights take: their width, and where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..situation import Situation, whole
from .lever import Edit, Lever, Move


class Precision(Lever):
    """Compute in bf16 where AI Toolkit would compute in fp32, which it does when ``train.dtype`` is absent.

    A ``train`` section without learning rate and noise scheduler is an excerpt, since nobody means AI Toolkit's own
    defaults for those (1e-6, ddpm): what it leaves out says nothing. Weights that are themselves trained keep the width
    their author chose.
    """

    name = "precision"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        written = at.settings.written("train.dtype")
        whole_section = all(at.settings.written(f"train.{key}") is not None for key in ("lr", "noise_scheduler"))
        said = written is not None or whole_section
        if said and at.trains_an_adapter and at.get("train.dtype") in self.entry["full"]:
            yield (self.set("train.dtype", self.entry["half"], "written" if written else "absent"),)


class LowVram(Lever):
    """AI Toolkit's ``low_vram``, in the phases where the architecture's code heeds it."""

    name = "low_vram"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        if at.get("model.low_vram") is False and at.phases & set(at.architecture.lowers("low_vram")):
            swaps = "train" in at.architecture.lowers("low_vram")
            yield (self.set("model.low_vram", True, "experts" if swaps else "parked"),)


class Quantization(Lever):
    """Narrower weights. ``to``: ``transformer``, ``text_encoder``, ``recovery`` (low bits with an adapter that recovers
    accuracy) or ``fewer_bits``.

    Trained weights cannot be quantized: without a network, or with a trained text encoder, none is offered for those.
    Source: toolkit/config_modules.py ModelConfig, validate_configs (an adapter in qtype excludes an assistant LoRA).
    """

    name = "quantization"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        if at.trains_an_adapter:
            yield from getattr(self, f"_{how['to']}")(at)

    def _bits(self, at: Situation) -> int | None:
        """The width of the transformer's weights now; ``None`` for a type the table does not have."""
        if at.get("model.quantize") is not True:
            return 16
        return self.entry["bits"].get(str(at.get("model.qtype")).split("|")[0])

    def _transformer(self, at: Situation) -> Iterator[Move]:
        if at.architecture.effect("quantize") is not True or at.get("model.quantize") is not False:
            return
        follows = at.settings.written("model.quantize_te") is None
        trained = follows and at.get("train.train_text_encoder") is True
        yield (
            self.set("model.quantize", True, "transformer", moves_with_it="model.quantize_te" if follows else ""),
            *self._usable_type(at, "model.qtype"),
            *((self.set("model.quantize_te", False, "not_the_trained"),) if trained else ()),
        )

    def _text_encoder(self, at: Situation) -> Iterator[Move]:
        if not self._text_encoder_matters(at) or at.get("model.quantize_te") is not False:
            return
        own = at.architecture.effect("quantize_te") == "own"
        yield (
            self.set("model.quantize_te", True, "text_encoder"),
            *self._usable_type(at, "model.qtype_te" if own else "model.qtype"),
        )

    def _text_encoder_matters(self, at: Situation) -> bool:
        """Whether a narrower text encoder lowers a phase that failed.

        At load most classes bring it to the card in full width first; during training it may be gone already.
        """
        if at.architecture.effect("quantize_te") not in ("own", "transformer"):
            return False
        if at.get("train.train_text_encoder") is True:
            return False
        if at.phases == {"load"}:
            parts = at.architecture.memory.get("text_encoders", ())
            return any(part["quantized_on"] in self.entry["no_full_width_on_card"] for part in parts)
        return bool(at.phases - {"load", "train", "save"}) or at.text_encoder_stays

    def _usable_type(self, at: Situation, path: str) -> list[Edit]:
        """The type, where none is written that quantizes anything."""
        if self.entry["bits"].get(str(at.get(path)).split("|")[0], 16) < 16:
            return []
        start = at.architecture.starts_with(path) or self.entry["usual"]
        return [self.set(path, start, "type")]

    def _recovery(self, at: Situation) -> Iterator[Move]:
        bits = self._bits(at)
        taken = at.get("model.assistant_lora_path") or at.get("model.accuracy_recovery_adapter")
        if bits is None or taken or "|" in str(at.get("model.qtype")):
            return
        offered = {adapter: self.entry["bits"][adapter.split("|")[0]] for adapter in at.architecture.recovery_adapters}
        for adapter in sorted(offered, key=lambda each: -offered[each]):
            if at.architecture.effect("accuracy_recovery") and offered[adapter] < bits:
                quantize = () if at.get("model.quantize") is True else next(iter(self._transformer(at)), ())
                yield (*quantize, self.set("model.qtype", adapter, "recovery", bits=offered[adapter]))
                return

    def _fewer_bits(self, at: Situation) -> Iterator[Move]:
        bits = self._bits(at)
        if at.get("model.quantize") is not True or at.architecture.effect("quantize") is not True or bits is None:
            return
        if at.architecture.memory.get("load") == "prequantized" or "|" in str(at.get("model.qtype")):
            return
        for narrower in self.entry["narrower"]:
            if self.entry["bits"][narrower] < bits:
                yield (self.set("model.qtype", narrower, "fewer_bits", bits=self.entry["bits"][narrower]),)
                return


class LayerOffloading(Lever):
    """Keep weights in pinned host memory and stream them layer by layer; ``less`` goes the other way, for the host.

    Source: toolkit/memory_management; only where a class attaches it. It needs no quantization; ``qfloat8`` becomes
    ``float8`` by itself (ModelConfig).
    """

    name = "layer_offloading"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        parts = {part: f"model.layer_offloading_{part}_percent" for part in at.architecture.lowers("layer_offloading")}
        on = at.get("model.layer_offloading")
        if how.get("less"):
            if parts and on is True:
                yield self._less(at, parts)
        elif not parts or not at.trains_an_adapter:
            return
        elif on is False:
            yield (self.set("model.layer_offloading", True, "on"),)
        elif on is True:
            more = [path for path in parts.values() if _share(at, path) not in (None, 1.0)]
            if more:
                yield tuple(self.set(path, 1.0, "more", old=_percent(at, path)) for path in more)

    def _less(self, at: Situation, parts: dict[str, str]) -> Move:
        edits = []
        for path in parts.values():
            share = _share(at, path)
            lower = [step for step in self.entry["shares"] if share is not None and step < share]
            if lower:
                edits.append(self.set(path, lower[0], "less", old=_percent(at, path), new=round(lower[0] * 100)))
        return tuple(edits) or (self.set("model.layer_offloading", False, "off"),)


def _share(at: Situation, path: str) -> float | None:
    value = at.get(path)
    return float(value) if isinstance(value, float) or whole(value) is not None else None


def _percent(at: Situation, path: str) -> int:
    return round((_share(at, path) or 0) * 100)
