"""Where a person changes a key: in AI Toolkit's form, or in the YAML behind "Show Advanced"."""

from __future__ import annotations

import re

from .. import configs
from ..contracts import Sentence, say
from .architectures import Architecture


def where(path: str, architecture: Architecture | None = None) -> Sentence:
    """The click path for a job key; without an architecture, only what the form shows for all of them."""
    pattern = re.sub(r"\[(\d+|\*)\]", "[]", path)
    shown = configs.load("levers")["form"].get(pattern)
    if shown is None or not _shows(shown, architecture):
        return say("where.advanced", path=path)
    number = re.search(r"\[(\d+)\]", path)
    return say(f"where.{pattern}", number=int(number[1]) + 1 if number else "…")


def _shows(what: str, architecture: Architecture | None) -> bool:
    if what == "always":
        return True
    if architecture is None:
        return what == "pictures"
    if what == "pictures":
        return architecture.kind != "audio"
    if what == "video":
        return architecture.kind == "video"
    return what in architecture.form
