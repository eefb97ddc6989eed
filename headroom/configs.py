"""Read the data in ``configs/``: facts and ids, one subject a file, parsed once on first use."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent.parent / "configs"


@cache
def load(name: str) -> Any:
    """The parsed content of ``configs/<name>.yaml`` (``name`` may hold a folder, with ``/``).

    The value is shared: read it, never change it. Raises FileNotFoundError for an unknown name.
    """
    return parsed((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


def parsed(text: str) -> Any:
    """What a text of YAML says, read by the fast parser where there is one."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
