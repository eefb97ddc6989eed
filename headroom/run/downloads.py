"""Before a run: what it will download, and whether the disk holds it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from .. import places
from ..contracts import Job, Sentence, say
from ..guard.architectures import Architecture, architecture
from ..job import Settings, settings
from ..job.settings import is_placeholder
from ..memory.budgeting import BudgetError
from ..memory.machine import space_at
from . import hub
from .hub import Cached, HubFile, Listing

GIB = 2**30
_SECONDS = 3.0  # that the Hub has for its answers
_RULE_BYTES = 2  # a parameter as most repositories hold it, in half precision
_TELL_GIB = 0.05  # less is no wait
# Where a job names models (toolkit/config_modules.py ModelConfig). All but the first hold parts beside the transformer.
_KEYS = (
    "model.name_or_path",
    "model.extras_name_or_path",
    "model.unet_path",
    "model.vae_path",
    "model.te_name_or_path",
    "model.refiner_name_or_path",
    "model.assistant_lora_path",
    "model.inference_lora_path",
    "model.lora_path",
)
_ALL, _BESIDE = "", "..."  # no names of files
_UNUSED = ("safety_checker",)  # toolkit/stable_diffusion_model.py leaves it out
_TRANSFORMERS = ("transformer", "transformer_2", "unet")
# Names of weights as diffusers and transformers look for them; others are variants or other programs' files.
_PLAIN = re.compile(r"(?:diffusion_pytorch_)?model(?:-\d{5}-of-\d{5})?\.safetensors")
_PICKLED = re.compile(r"(?:diffusion_)?pytorch_model(?:-\d{5}-of-\d{5})?\.bin")


class DiskTooSmall(BudgetError):
    """The disk cannot hold what is certainly downloaded; ``sentence`` says how much that is, and the way out."""


@dataclass(frozen=True)
class Download:
    """What one repository will bring, in GiB: about so much, of it ``certain_gib`` whatever else is true.

    ``source``: the Hub's own sizes; a rule of thumb from the architecture's parameters; or nothing that could be told.
    """

    repository: str
    gib: float
    certain_gib: float
    source: Literal["hub", "rule", "unknown"]


@dataclass(frozen=True)
class Forecast:
    """All downloads of a run, where they will lie, and what is free there (``None``: cannot be read)."""

    downloads: tuple[Download, ...]
    cache: Path
    free_gib: float | None
    warnings: tuple[Sentence, ...]

    @property
    def gib(self) -> float:
        """About how much will be downloaded."""
        return sum(each.gib for each in self.downloads)

    @property
    def refusal(self) -> Sentence | None:
        """Why the run need not begin: what is certainly downloaded does not fit."""
        certain = sum(each.certain_gib for each in self.downloads)
        if self.free_gib is None or certain <= self.free_gib:
            return None
        return say("downloads.disk_too_small", gib=certain, free=self.free_gib, place=str(self.cache))


def forecast(job: Job, base: Path, token: str | None = None, environment: Mapping[str, str] = os.environ) -> Forecast:
    """What AI Toolkit, run in ``base``, will download for a job; asks the Hub for at most three seconds.

    A folder or file that is there is downloaded by nobody; so is nothing where the Hub is switched off.
    """
    cache = places.model_cache(environment)
    of_job = settings(job)
    named = {} if hub.offline(environment) else _repositories(of_job, base)
    known = architecture(of_job.architecture)
    listings = hub.list_files(tuple(named), token, _SECONDS, environment)
    downloads = tuple(
        _download(repository, parts, listings[repository], Cached(repository, cache), known)
        for repository, parts in named.items()
    )
    space = space_at(cache)
    free = space.free_gib if space else None
    warnings = [each for download in downloads for each in _said(download, listings[download.repository])]
    if not token and not hub.logged_in(environment):
        warnings += [
            say("downloads.gated", repository=each.repository)
            for each in downloads
            if listings[each.repository].gated and each.gib >= _TELL_GIB
        ]
    total = sum(each.gib for each in downloads)
    if free is not None and total > free:
        warnings.append(say("downloads.disk_short", gib=total, free=free, place=str(cache)))
    return Forecast(downloads, cache, free, tuple(warnings))


def _said(download: Download, listing: Listing) -> Iterator[Sentence]:
    if listing.answer == "hidden":
        yield say("downloads.hidden", repository=download.repository)
    elif download.source == "unknown":
        yield say("downloads.unknown", repository=download.repository)
    elif download.gib >= _TELL_GIB:
        yield say(f"downloads.{download.source}", repository=download.repository, gib=download.gib)


def _repositories(of_job: Settings, base: Path) -> dict[str, list[str]]:
    """The repositories that a job names and that are no folder here; of each the files in it, or the parts it brings.

    Source: the models' own ``load_model``: what ``os.path.exists`` is taken as it is; ``owner/name/file`` is one file.
    """
    names = [(key, of_job.get(key)) for key in _KEYS]
    names.append(("adapter", str(of_job.get("model.qtype") or "").partition("|")[2]))
    found: dict[str, list[str]] = {}
    for key, name in names:
        if not isinstance(name, str) or is_placeholder(name) or (base / name).exists():
            continue
        repository, file = "/".join(name.split("/")[:2]), "/".join(name.split("/")[2:])
        if hub.is_repository(repository):
            parts = found.setdefault(repository, [])
            parts.append(file or (_ALL if key == "model.name_or_path" else _BESIDE))
    return found


def _download(repository: str, parts: list[str], listing: Listing, cached: Cached, known: Architecture) -> Download:
    wanted = {file for part in parts for file in _wanted(listing.files, part)}
    if wanted:
        missing = sum(file.size - cached.piece(file) for file in wanted if not cached.has(file))
        least = [file for file in wanted if file.path in parts or _top(file) in _TRANSFORMERS]
        lacking = sum(file.size - cached.piece(file) for file in least if not cached.has(file))
        # The same weights may lie there in another of the repository's files.
        certain = min(lacking, max(0, sum(file.size for file in least) - cached.weights()))
        return Download(repository, missing / GIB, certain / GIB, "hub")
    there, parameters = cached.weights(), _parameters(known) if _ALL in parts else 0
    if not parameters:
        return Download(repository, 0.0, 0.0, "rule" if there else "unknown")
    return Download(repository, max(0, parameters * _RULE_BYTES - there) / GIB, 0.0, "rule")


def _wanted(files: tuple[HubFile, ...], part: str) -> list[HubFile]:
    """The weights that will be read: a file, or of every part with a configuration those of the usual names."""
    if part not in (_ALL, _BESIDE):
        return [file for file in files if file.path == part]
    parts = {str(PurePosixPath(file.path).parent) for file in files if PurePosixPath(file.path).name == "config.json"}
    found: list[HubFile] = []
    for folder in sorted(parts):
        top = folder.split("/")[0]
        if top in _UNUSED or (top in _TRANSFORMERS and part == _BESIDE):
            continue
        inside = [file for file in files if str(PurePosixPath(file.path).parent) == folder]
        for pattern in (_PLAIN, _PICKLED):
            if usual := [file for file in inside if pattern.fullmatch(PurePosixPath(file.path).name)]:
                found += usual
                break
    return found


def _top(file: HubFile) -> str:
    return file.path.split("/")[0]


def _parameters(known: Architecture) -> int:
    """All that the architecture's parts hold; 0 where no counts are known."""
    memory = known.memory or {}
    transformer = memory.get("transformer") or {}
    parts = [transformer, memory.get("vae") or {}, *(memory.get("text_encoders") or ())]
    counts = [int(each.get("params") or 0) * int(each.get("copies") or 1) for each in parts]
    return sum(counts) if transformer.get("params") else 0
