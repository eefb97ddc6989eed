"""What Headroom knows of a model architecture: which memory settings do anything there, and to which values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from .. import configs

_FOLDER = "architectures"
_GENERIC = "generic"


@dataclass(frozen=True)
class FrameGrid:
    """The frame counts a video model takes: ``step * n + first``."""

    step: int
    first: int

    def at_most(self, frames: float) -> int:
        """The largest legal count that is not above ``frames``; the smallest one where none is."""
        return max(0, int(frames - self.first) // self.step) * self.step + self.first

    @property
    def shortest_clip(self) -> int:
        """The smallest legal count of more than one frame: with one, AI Toolkit looks for still images."""
        return self.first if self.first > 1 else self.first + self.step

    def fewer(self, frames: int, keep: float, cap: int | None = None, least: int = 0) -> int | None:
        """A legal count of about the share ``keep``, or at most ``cap``; ``None`` where that would be below ``least``.

        Never one frame.
        """
        wanted = self.at_most(cap if cap is not None and cap < frames else frames * keep)
        lowest = max(self.shortest_clip, self.at_most(least + self.step - 1))
        target = max(wanted, lowest)
        return target if target < frames else None


@dataclass(frozen=True)
class Architecture:
    """One file of ``configs/architectures``; its words are explained in ``index.yaml`` there."""

    name: str
    label: str
    kind: str
    known: bool
    frames: FrameGrid | None
    divisible_by: int
    effects: Mapping[str, Any]
    form: tuple[str, ...]
    defaults: Mapping[str, Any]
    absent: tuple[str, ...]
    gated: str | None
    preview_image: Mapping[str, str]
    recovery_adapters: tuple[str, ...]
    memory: Mapping[str, Any]

    def effect(self, name: str) -> Any:
        """What a switch does here, in the words of ``index.yaml``."""
        return self.effects[name]

    def lowers(self, name: str) -> tuple[str, ...]:
        """The phases, or the parts, that a switch with several effects reaches; empty where it is ignored or fails."""
        found = self.effects[name]
        return tuple(found) if isinstance(found, list) else ()

    def starts_with(self, path: str) -> Any:
        """What AI Toolkit's form starts a job of this architecture with; ``None`` where it leaves the key out."""
        if path in self.absent:
            return None
        return self.defaults.get(path, _common_start().get(path))


@cache
def _common_start() -> dict[str, Any]:
    """The keys that the form starts every job with, by their paths."""
    found: dict[str, Any] = {}

    def walk(value: Any, path: str) -> None:
        if path == "datasets":
            walk(value[0], "datasets[]")
        elif isinstance(value, dict) and value:
            for key, below in value.items():
                walk(below, f"{path}.{key}" if path else key)
        else:
            found[path] = value

    walk(configs.load("starting/common")["config"]["process"][0], "")
    return found


@cache
def _files() -> frozenset[str]:
    names = {file.name.removesuffix(".yaml") for file in (configs.FOLDER / _FOLDER).glob("*.yaml")}
    return frozenset(names - {"index", _GENERIC})


def _file(name: str) -> str:
    """The file that describes an architecture: by its name, without its tag, or under another name."""
    aliases = configs.load(f"{_FOLDER}/index")["aliases"]
    base = name.partition(":")[0]
    for candidate in (name, aliases.get(name, ""), base, aliases.get(base, "")):
        if (file := candidate.replace(":", ".")) in _files():
            return file
    return _GENERIC


@cache
def architecture(name: str) -> Architecture:
    """The facts of an architecture, by ``model.arch`` with or without its tag; the generic ones for an unknown name."""
    file = _file(name)
    data = configs.load(f"{_FOLDER}/{file}")
    frames = data.get("frames")
    return Architecture(
        name=name,
        label=configs.load(f"{_FOLDER}/index")["labels"].get(name, data["label"]),
        kind=data["kind"],
        known=file != _GENERIC,
        frames=FrameGrid(**frames) if frames else None,
        divisible_by=data.get("divisible_by", 8),
        effects=data["effects"],
        form=tuple(data["form"]),
        defaults=data.get("defaults", {}),
        absent=tuple(data.get("absent", ())),
        gated=data.get("gated"),
        preview_image=data.get("preview_image", {}),
        recovery_adapters=tuple(data.get("recovery_adapters", ())),
        memory=data["memory"],
    )
