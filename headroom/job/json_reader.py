"""JSON read as AI Toolkit reads it (Python's ``json.loads``), keeping the place of every value.

The same documents are accepted and refused, so no comments and no trailing commas, but NaN and Infinity.
"""

from __future__ import annotations

import re
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Any

from .errors import JobError, wrong
from .tree import NESTING_LIMIT, NODE_LIMIT, Node, Tree, line_of

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_PLACEHOLDER = re.compile(r"\$\{[^}\s]+\}")
_WORDS = {
    "null": None,
    "true": True,
    "false": False,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_WORD = re.compile("|".join(_WORDS))
_NUMBER_LENGTH = 400


def read_json(text: str) -> Tree:
    """The tree of a JSON text. Raises JobError with the line of what cannot be read."""
    if text.startswith("\ufeff"):
        raise wrong("job.error.json_bom", line=1)
    reader = _Reader(text)
    try:
        root, end = reader.value(_space(text, 0), 0)
        end = _space(text, end)
        if end < len(text):
            raise JSONDecodeError("Extra data", text, end)
    except JSONDecodeError as error:
        raise _syntax_error(text, error) from None
    return Tree(text, root, "json")


def _space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _syntax_error(text: str, error: JSONDecodeError) -> JobError:
    at = _space(text, error.pos)
    if text[at : at + 2] in ("//", "/*"):
        return wrong("job.error.json_comment", line=line_of(text, at))
    if text[at : at + 1] == "#":
        return wrong("job.error.json_hash", line=line_of(text, at))
    before = text[: error.pos].rstrip()
    if before.endswith(",") and text[at : at + 1] in ("}", "]"):
        return wrong("job.error.json_comma", line=line_of(text, len(before)))
    return wrong("job.error.json", line=line_of(text, error.pos), column=error.colno, detail=error.msg)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.count = 0

    def value(self, at: int, depth: int) -> tuple[Node, int]:
        text = self.text
        self.count += 1
        if self.count > NODE_LIMIT or depth > NESTING_LIMIT:
            raise wrong("job.error.too_long" if self.count > NODE_LIMIT else "job.error.nested", line=line_of(text, at))
        sign = text[at : at + 1]
        if sign == "{":
            return self.object(at, depth)
        if sign == "[":
            return self.array(at, depth)
        if sign == '"':
            return self.string(at)
        if number := _NUMBER.match(text, at):
            if number.end() - at > _NUMBER_LENGTH:
                raise wrong("job.error.number_length", line=line_of(text, at), limit=_NUMBER_LENGTH)
            whole, fraction, exponent = number.groups()
            value: Any = float(number.group()) if fraction or exponent else int(whole)
            return self.scalar(at, number.end(), value)
        if word := _WORD.match(text, at):
            return self.scalar(at, word.end(), _WORDS[word.group()])
        if placeholder := _PLACEHOLDER.match(text, at):
            return self.scalar(at, placeholder.end(), placeholder.group())
        raise JSONDecodeError("Expecting value", text, at)

    def scalar(self, at: int, end: int, value: Any, style: str | None = None) -> tuple[Node, int]:
        node = Node("scalar", at, at, end)
        node.value = value
        node.style = style
        return node, end

    def string(self, at: int) -> tuple[Node, int]:
        value, end = scanstring(self.text, at + 1, True)
        return self.scalar(at, end, value, '"')

    def array(self, at: int, depth: int) -> tuple[Node, int]:
        node = Node("seq", at, at, at)
        node.flow = True
        at = _space(self.text, at + 1)
        if self.text[at : at + 1] != "]":
            while True:
                item, at = self.value(at, depth + 1)
                node.items.append(item)
                at = _space(self.text, at)
                if self.text[at : at + 1] != ",":
                    break
                at = _space(self.text, at + 1)
        return self.close(node, at, "]")

    def object(self, at: int, depth: int) -> tuple[Node, int]:
        node = Node("map", at, at, at)
        node.flow = True
        at = _space(self.text, at + 1)
        if self.text[at : at + 1] != "}":
            while True:
                if self.text[at : at + 1] != '"':
                    raise JSONDecodeError("Expecting property name enclosed in double quotes", self.text, at)
                key, at = self.string(at)
                at = _space(self.text, at)
                if self.text[at : at + 1] != ":":
                    raise JSONDecodeError("Expecting ':' delimiter", self.text, at)
                value, at = self.value(_space(self.text, at + 1), depth + 1)
                node.items.append((key, value))
                at = _space(self.text, at)
                if self.text[at : at + 1] != ",":
                    break
                at = _space(self.text, at + 1)
        return self.close(node, at, "}")

    def close(self, node: Node, at: int, bracket: str) -> tuple[Node, int]:
        if self.text[at : at + 1] != bracket:
            raise JSONDecodeError("Expecting ',' delimiter", self.text, at)
        node.end = at + 1
        return node, node.end
