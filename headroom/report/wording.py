"""Put a ``Sentence`` into words, from ``locales/<lang>/report.json``."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from ..contracts import Sentence

LOCALES = Path(__file__).resolve().parents[2] / "locales"
LANGUAGES = ("en", "zh")


@cache
def _words(lang: str) -> dict[str, str]:
    with open(LOCALES / lang / "report.json", encoding="utf-8") as file:
        return json.load(file)


def _shown(value: Any, lang: str) -> Any:
    if isinstance(value, Sentence):
        return words(value, lang)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(_shown(item, lang)) for item in value)
    return value


def _number(value: float) -> str:
    """Two decimals; below a tenth, two digits that say something, down to a millionth (a GiB's KiB)."""
    for decimals in (2, 3, 4, 5, 6):
        if value == 0 or abs(value) >= 10 ** (1 - decimals):
            return f"{value:.{decimals}f}".rstrip("0").rstrip(".")
    return f"{value:.6f}".rstrip("0").rstrip(".")


def known_key(key: str) -> bool:
    """Whether there is a sentence of that key."""
    return key in _words("en")


def words(sentence: Sentence, lang: str = "en") -> str:
    """The sentence in the asked language, English where that language lacks it.

    Raises KeyError for a key that English lacks too: a test holds every key the core uses to both files.
    """
    template = _words(lang).get(sentence.key) or _words("en")[sentence.key]
    return template.format(**{name: _shown(value, lang) for name, value in sentence.values})
