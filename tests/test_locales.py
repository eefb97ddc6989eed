"""Both languages say the same things: the nodes', the page's and the help pages'."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest

from headroom.contracts import say
from headroom.report.wording import words

ROOT = Path(__file__).resolve().parent.parent
LOCALES = ROOT / "locales"
FILES = sorted(path.name for path in (LOCALES / "en").glob("*.json"))


def _flat(data: dict[str, Any], before: str = "") -> dict[str, str]:
    found = {}
    for key, value in data.items():
        path = f"{before}/{key}"
        found |= _flat(value, path) if isinstance(value, dict) else {path: value}
    return found


def _read(lang: str, name: str) -> dict[str, str]:
    return _flat(json.loads((LOCALES / lang / name).read_text(encoding="utf-8")))


def _fields(text: str) -> list[str]:
    return sorted(name.split(".")[0] for _, name, _, _ in string.Formatter().parse(text) if name is not None)


@pytest.mark.parametrize("name", FILES)
def test_the_languages_have_the_same_keys(name: str) -> None:
    assert sorted(_read("zh", name)) == sorted(_read("en", name))


@pytest.mark.parametrize("name", [name for name in FILES if name != "nodeDefs.json"])
def test_the_languages_fill_in_the_same_values(name: str) -> None:
    chinese = _read("zh", name)
    differing = {key for key, text in _read("en", name).items() if _fields(text) != _fields(chinese.get(key, ""))}
    assert differing == set()


@pytest.mark.parametrize("name", FILES)
def test_every_sentence_is_said_and_the_chinese_is_chinese(name: str) -> None:
    english, chinese = _read("en", name), _read("zh", name)
    sentences = [key for key, text in english.items() if text.strip()]  # the rest only join sentences
    assert [key for key in sentences if not chinese[key].strip()] == []
    plain = [key for key in sentences if chinese[key].isascii() and len(chinese[key]) > 12 and " " in chinese[key]]
    assert plain == []


def test_every_node_has_a_help_page_in_both_languages() -> None:
    for node in json.loads((LOCALES / "en" / "nodeDefs.json").read_text(encoding="utf-8")):
        for page in (ROOT / "js" / "docs" / f"{node}.md", ROOT / "js" / "docs" / node / "zh.md"):
            assert page.read_text(encoding="utf-8").startswith("# "), page


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0.0, "0"), (23.504, "23.5"), (1.0, "1"), (0.1, "0.1"), (0.02, "0.02"), (0.0137, "0.014"), (0.000073, "0.000073")],
)
def test_a_small_size_is_not_told_as_nothing(number: float, shown: str) -> None:
    assert words(say("node.run.gib", gib=number)).startswith(f"{shown} ")
