"""Which languages a node shows its report in."""

from __future__ import annotations

import json
from pathlib import Path

from ..headroom.report.wording import LANGUAGES

CHOICES = ("auto", *LANGUAGES)


def languages(choice: str) -> tuple[str, ...]:
    """The languages to prepare, the report's first. ``auto``: ComfyUI's own, then the rest, for the page to choose.

    Raises ValueError for a choice that is none: ComfyUI before 0.4 does not check combos.
    """
    if choice in LANGUAGES:
        return (choice,)
    if choice != "auto":
        raise ValueError(f"language is {choice!r}; choose one of {', '.join(CHOICES)}.")
    return tuple(sorted(LANGUAGES, key=lambda lang: lang != _of_comfyui()))


def _of_comfyui() -> str:
    import folder_paths

    settings = Path(folder_paths.get_user_directory(), "default", "comfy.settings.json")
    try:
        locale = str(json.loads(settings.read_text(encoding="utf-8")).get("Comfy.Locale", ""))
    except (OSError, ValueError, AttributeError):
        return "en"
    return next((lang for lang in LANGUAGES if locale.startswith(lang)), "en")
