"""A node's words: one file per language, ``locales/<lang>/nodeDefs.json``, which the page reads too."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from comfy_api.latest import io

ENGLISH = Path(__file__).resolve().parent.parent / "locales" / "en" / "nodeDefs.json"


@cache
def _english() -> dict[str, Any]:
    return json.loads(ENGLISH.read_text(encoding="utf-8"))


def described(schema: io.Schema) -> io.Schema:
    """The schema with its name, description and tooltips filled in, in English; the page translates them.

    Raises KeyError for a node, input or output without words.
    """
    words = _english()[schema.node_id]
    schema.display_name = words["display_name"]
    schema.description = words["description"]
    for socket in schema.inputs:
        socket.tooltip = words["inputs"][socket.id]["tooltip"]
    for number, socket in enumerate(schema.outputs):
        socket.display_name = words["outputs"][str(number)]["name"]
        socket.tooltip = words["outputs"][str(number)]["tooltip"]
    return schema
