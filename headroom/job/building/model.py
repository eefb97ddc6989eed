"""Start a job: which model, and how its weights are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ... import configs
from ...contracts import Job, Sentence, say
from ...guard.architectures import Architecture, architecture
from ..errors import wrong
from ..settings import settings
from .parts import Built, given
from .start import new_job, with_keys

NONE = "none"  # as a type: not quantized


@dataclass(frozen=True)
class Model:
    """``name_or_path``: a repository of Hugging Face, a folder or a file. ``adapter``: the bits of the architecture's
    accuracy recovery adapter (``uint4``), instead of a type. ``layer_offloading``: per cent of the layers."""

    architecture: str
    name_or_path: str | None = None
    low_vram: bool | None = None
    quantization: str | None = None
    adapter: str | None = None
    text_encoder_quantization: str | None = None
    layer_offloading: int = 0


def start_job(chosen: Model) -> Built:
    """A new job for a model. Raises JobError for a choice that cannot be."""
    about = architecture(chosen.architecture)
    keys: dict[str, Any] = {"model.name_or_path": chosen.name_or_path, "model.low_vram": chosen.low_vram}
    keys |= _quantized("model.quantize", "model.qtype", chosen.quantization)
    keys |= _quantized("model.quantize_te", "model.qtype_te", chosen.text_encoder_quantization)
    if chosen.adapter:
        keys |= {"model.quantize": True, "model.qtype": _adapter(about, chosen.adapter)}
    if chosen.layer_offloading:
        if about.effect("layer_offloading") == "error":
            raise wrong("building.error.layer_offloading", model=about.label)
        share = min(chosen.layer_offloading, 100) / 100
        keys |= {
            "model.layer_offloading": True,
            "model.layer_offloading_transformer_percent": share,
            "model.layer_offloading_text_encoder_percent": share,
        }
    job = with_keys(new_job(chosen.architecture), given(keys))
    return Built(job, tuple(_said(job, about)), tuple(_notes(job, about, chosen)))


def _quantized(switch: str, key: str, wanted: str | None) -> dict[str, Any]:
    """The keys for a type; for none at all what the form writes: off, with its usual type."""
    if wanted is None:
        return {}
    usual = configs.load("levers")["levers"]["quantization"]["usual"]
    return {switch: wanted != NONE, key: usual if wanted == NONE else wanted}


def _adapter(about: Architecture, bits: str) -> str:
    offered = {each.split("|")[0]: each for each in about.recovery_adapters}
    if bits not in offered:
        key = "building.error.adapter" if offered else "building.error.no_adapter"
        raise wrong(key, model=about.label, bits=bits, offered=sorted(offered))
    return offered[bits]


def _said(job: Job, about: Architecture) -> Iterator[Sentence]:
    used = settings(job)
    kind = str(used.get("model.qtype")).split("|")[0] if used.get("model.quantize") else None
    quantized = say("building.said.quantized", kind=kind) if kind else say("building.said.not_quantized")
    low_vram = say(f"building.said.low_vram_{'on' if used.get('model.low_vram') else 'off'}")
    yield say("building.said.model", model=used.get("model.name_or_path"), quantized=quantized, low_vram=low_vram)


def _notes(job: Job, about: Architecture, chosen: Model) -> Iterator[Sentence]:
    if about.gated and chosen.name_or_path is None:
        yield say("building.note.gated", model=about.label, page=about.gated)
    wanted = chosen.quantization or chosen.adapter
    if wanted not in (None, NONE) and about.effect("quantize") is False:
        yield say("building.note.not_quantized", model=about.label)
    if chosen.low_vram and not about.lowers("low_vram"):
        yield say("building.note.low_vram", model=about.label)
    if chosen.layer_offloading and not about.lowers("layer_offloading"):
        yield say("building.note.layer_offloading", model=about.label)
