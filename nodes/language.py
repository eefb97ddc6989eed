"""Which languages a node shows its report in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, get_args

Language = Literal["en", "zh"]

LANGUAGES: tuple[Language, ...] = get_args(Language)
CHOICES = ("auto", *LANGUAGES)


def languages(choice: str) -> tuple[Language, ...]:
    """The languages to prepare, the report's first. ``auto``: ComfyUI's own, then the rest, for the page to choose.

    Raises ValueError for a choice that is none: ComfyUI before 0.4 does not check combos.
    """
    if choice not in CHOICES:
        raise ValueError(f"language is {choice!r}; choose one of {', '.join(CHOICES)}.")
    first = _of_comfyui() if choice == "auto" else choice
    chosen = tuple(sorted(LANGUAGES, key=lambda lang: lang != first))
    return chosen if choice == "auto" else chosen[:1]


def _of_comfyui() -> Language:
    import folder_paths

    settings = Path(folder_paths.get_user_directory(), "default", "comfy.settings.json")
    try:
        locale = str(json.loads(settings.read_text(encoding="utf-8")).get("Comfy.Locale", ""))
    except (OSError, ValueError, AttributeError):
        return "en"
    return next((lang for lang in LANGUAGES if locale.startswith(lang)), "en")
