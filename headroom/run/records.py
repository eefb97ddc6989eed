"""The small JSON files of a run: written whole or not at all, and read as nothing where they are damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..contracts import Sentence, say


def read(path: Path) -> dict[str, Any] | None:
    """The object in a file; ``None`` where there is none that is whole."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write an object: beside its place, onto the disk, then in place. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    try:
        with open(new, "w", encoding="utf-8") as file:
            json.dump(data, file, ensure_ascii=False, indent=2)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def plain(value: Any) -> Any:
    """A value of the contracts as JSON; a sentence is its key and values, to be said in any language later."""
    if isinstance(value, Sentence):
        return {"key": value.key, "values": {name: plain(item) for name, item in value.values}}
    if hasattr(value, "__dataclass_fields__"):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def sentence(kept: Mapping[str, Any]) -> Sentence:
    """A sentence from its plain form."""
    return say(kept["key"], **{name: _said(value) for name, value in kept["values"].items()})


def _said(value: Any) -> Any:
    return sentence(value) if isinstance(value, Mapping) else tuple(value) if isinstance(value, list) else value
