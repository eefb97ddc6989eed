"""The previews a job asks for, at the sizes AI Toolkit would make them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from .. import configs
from .settings import Settings

_SIZES = ("width", "height", "num_frames")


@dataclass(frozen=True)
class Preview:
    """One preview. Sizes in pixels; ``path`` is the job's entry that asks for it.

    ``decided_by`` names, for ``width``, ``height`` and ``num_frames``, the key whose edit changes it: the entry's own,
    the global one, or the prompt itself where a flag in its text (``--w 512``) beats both.
    """

    index: int
    width: int
    height: int
    num_frames: int
    path: str
    decided_by: Mapping[str, str]


def previews(settings: Settings, section: str = "sample") -> tuple[Preview, ...]:
    """The previews in the order they are made; ``section`` may be ``first_sample``, the baseline's own.

    Entries of ``samples`` win over ``prompts``. Sources: toolkit/config_modules.py SampleConfig, SampleItem,
    GenerateImageConfig; jobs/process/BaseSDTrainProcess.py sample.
    """
    if not settings.trains:
        return ()
    items, path = settings.written(f"{section}.samples"), f"{section}.samples"
    if not isinstance(items, list):
        path = f"{section}.prompts"
        prompts = settings.written(path)
        items = [{"prompt": prompt} for prompt in prompts] if isinstance(prompts, list) else []
    own_keys = path.endswith("samples")
    # An entry without a prompt is left out of the prompts but not of the sizes, so what follows shifts.
    spoken = [(at, item["prompt"]) for at, item in enumerate(items) if item.get("prompt") is not None]
    made = []
    for index, (at, prompt) in enumerate(spoken):
        flags = prompt_flags(str(prompt))
        sizes: dict[str, int] = {}
        decided: dict[str, str] = {}
        for size in _SIZES:
            place = f"{path}[{index}].{size}" if own_keys and size in items[index] else f"{section}.{size}"
            value = settings.get(place)
            if size in flags:
                place = f"{path}[{at}].prompt" if own_keys else f"{path}[{at}]"
                value = flags[size]
            sizes[size] = _number(value, settings, size)
            decided[size] = place
        width, height = (max(64, sizes[side] - sizes[side] % 8) for side in ("width", "height"))
        made.append(Preview(index, width, height, sizes["num_frames"], f"{path}[{index}]", decided))
    return tuple(made)


def _number(value: Any, settings: Settings, size: str) -> int:
    """A size as a whole number; a placeholder that only the run fills in counts as the code's default."""
    if isinstance(value, (int, float)):
        return int(value)
    return int(configs.load("job_keys")["keys"][f"sample.{size}"]["default"])


@cache
def _flag_sizes() -> dict[str, str]:
    table = configs.load("job_keys")["prompt_flags"]
    return {flag: size for size, flags in table.items() for flag in flags}


def prompt_flags(prompt: str) -> dict[str, int]:
    """The sizes that flags in a prompt's text set; the last one counts. A flag without a number is left out."""
    found: dict[str, int] = {}
    for part in prompt.strip().split("--")[1:]:
        flag = part.split(" ")[0].strip()
        size = _flag_sizes().get(flag)
        if size is not None:
            try:
                found[size] = int(part[len(flag) :].strip())
            except ValueError:
                continue
    return found


def with_flags(prompt: str, sizes: Mapping[str, int]) -> str:
    """The prompt with the numbers of its own size flags replaced; flags it does not have are not added."""

    def replace(found: re.Match[str]) -> str:
        size = _flag_sizes().get(found[2])
        return f"{found[1]}{found[2]}{found[3]}{sizes[size]}" if size is not None and size in sizes else found[0]

    return re.sub(r"(--)(\w+)( +)(\d+)(?=\s|$|--)", replace, prompt)
