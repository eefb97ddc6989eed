"""Write values as text that AI Toolkit reads back as the same values, in YAML and in JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from .yaml_reader import scalar_type

# Words that need no quotes wherever they stand; what else needs none is quoted too, which is never wrong.
_PLAIN = re.compile(r"[\w/.~][\w/.~+@%-]*(?:[ :][\w/.~+@%()-]+)*")


def yaml_scalar(value: Any, quote: str | None = None) -> str:
    """A text, number, boolean or ``None`` in YAML, on one line; a text keeps the quotes it had, where it can."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        return repr(value)
    if isinstance(value, int):
        return repr(value)
    text = str(value)
    plain = _PLAIN.fullmatch(text) is not None
    if quote not in ("'", '"') and plain and not text.endswith(":") and scalar_type(text) == "str":
        return text
    if quote == "'" and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return "".join(sign if sign.isprintable() else _escape(sign) for sign in json.dumps(text, ensure_ascii=False))


def _escape(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


def yaml_flow(value: Any, quote: str | None = None) -> str:
    """Any value in YAML on one line: ``[512, 768]``, ``{use_ema: false}``."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{yaml_scalar(key)}: {yaml_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(yaml_flow(item) for item in value) + "]"
    return yaml_scalar(value, quote)


def yaml_lines(key: str, value: Any, indent: int) -> list[str]:
    """The lines of ``key: value`` in YAML's block style, lists of plain values on one line."""
    head = " " * indent + yaml_scalar(key) + ":"
    if isinstance(value, Mapping) and value:
        return [head, *(line for name, item in value.items() for line in yaml_lines(name, item, indent + 2))]
    if isinstance(value, (list, tuple)) and any(isinstance(item, (Mapping, list, str)) for item in value):
        return [head, *(line for item in value for line in yaml_item(item, indent + 2))]
    return [f"{head} {yaml_flow(value)}"]


def yaml_item(item: Any, indent: int) -> list[str]:
    """The lines of an entry of a list in YAML's block style."""
    if isinstance(item, Mapping) and item:
        lines = [line for name, value in item.items() for line in yaml_lines(name, value, indent + 2)]
        return [" " * indent + "- " + lines[0][indent + 2 :], *lines[1:]]
    return [" " * indent + "- " + yaml_flow(item)]


def block_yaml(value: Mapping[str, Any]) -> str:
    """A whole document in YAML's block style."""
    return "\n".join(line for key, item in value.items() for line in yaml_lines(key, item, 0)) + "\n"


def json_text(value: Any) -> str:
    """Any value in JSON on one line."""
    return json.dumps(value, ensure_ascii=False)
