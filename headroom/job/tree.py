"""A job's text as a tree whose nodes know where they stand, the same for YAML and JSON.

Offsets are indices into the text as a Python string (code points; a BOM and both halves of CRLF count).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from .errors import wrong

NESTING_LIMIT = 100  # levels; a job has about eight
NODE_LIMIT = 8_000  # nodes written in a text; a long job has a thousand
VALUE_LIMIT = 50_000  # values once every alias is followed: what an alias bomb multiplies

_NEWLINE = re.compile(r"\r\n|\r|\n")


class Entry(NamedTuple):
    """A pair of a mapping; ``own`` is false where it comes from a merge key (``<<``)."""

    key: Node
    value: Node
    own: bool


class Node:
    """A value of the document and its place.

    ``start`` is where its anchor or tag begins, ``body`` where its own text does, ``end`` where that ends (for a block
    collection: where the next thing begins). ``items`` holds the nodes of a list, or the pairs of a mapping.
    """

    __slots__ = (
        "_entries",
        "anchor",
        "body",
        "end",
        "flow",
        "inherited",
        "items",
        "kind",
        "raw",
        "start",
        "style",
        "tag",
        "target",
        "value",
    )

    def __init__(self, kind: Literal["map", "seq", "scalar", "alias"], start: int, body: int, end: int) -> None:
        self.kind = kind
        self.start = start
        self.body = body
        self.end = end
        self.flow = False
        self.style: str | None = None
        self.tag: str | None = None
        self.anchor: str | None = None
        self.target: Node | None = None
        self.value: Any = None
        self.raw = ""  # a scalar's text as PyYAML scans it
        self.items: list[Any] = []
        self.inherited: list[Entry] = []  # what its merge keys bring, in the order in which later ones win
        self._entries: dict[str, Entry] | None = None

    @property
    def real(self) -> Node:
        """The node itself, or what the alias stands for."""
        return self.target or self

    @property
    def is_merge(self) -> bool:
        """Whether this is a key that merges other mappings (``<<``)."""
        return self.kind == "scalar" and self.tag == "merge"

    @property
    def entries(self) -> dict[str, Entry]:
        """The pairs as AI Toolkit sees them: of a repeated key the last, inherited ones under the mapping's own.

        Keys become strings, since every job goes through JSON once (toolkit/config.py preprocess_config).
        """
        if self._entries is None:
            own = [Entry(key, value, True) for key, value in self.items if not key.is_merge]
            pairs = {entry.key.real.value: entry for entry in (*self.inherited, *own)}
            self._entries = {_json_key(name): entry for name, entry in pairs.items()}
        return self._entries


def _json_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    return repr(key)


class Tree:
    """A parsed text. ``data`` is what AI Toolkit reads in it, with nothing shared between aliases."""

    def __init__(self, text: str, root: Node, syntax: Literal["yaml", "json"]) -> None:
        self.text = text
        self.syntax = syntax
        self.root = root
        self._values = 0
        self.data = self._value(root, 0)

    def _value(self, node: Node, depth: int) -> Any:
        self._values += 1
        if self._values > VALUE_LIMIT:
            raise wrong("job.error.explodes", line=self.line(node.start), limit=VALUE_LIMIT)
        if depth > NESTING_LIMIT:
            raise wrong("job.error.nested", line=self.line(node.start))
        node = node.real
        if node.kind == "map":
            return {name: self._value(entry.value, depth + 1) for name, entry in node.entries.items()}
        if node.kind == "seq":
            return [self._value(item, depth + 1) for item in node.items]
        return node.value

    def line(self, offset: int) -> int:
        """The 1-based line of an offset."""
        return line_of(self.text, offset)

    def find(self, steps: Sequence[str | int]) -> Node | None:
        """The node that a path leads to, through aliases and merge keys; ``None`` where there is none."""
        node = self.root
        for step in steps:
            real = node.real
            if real.kind == "map" and isinstance(step, str) and step in real.entries:
                node = real.entries[step].value
            elif real.kind == "seq" and isinstance(step, int) and step < len(real.items):
                node = real.items[step]
            else:
                return None
        return node

    def line_at(self, steps: Sequence[str | int]) -> int | None:
        """The line on which a path's value stands, or its deepest existing parent's."""
        for depth in range(len(steps), 0, -1):
            node = self.find(steps[:depth])
            if node is not None:
                return self.line(node.start)
        return None

    def nodes(self) -> Iterator[Node]:
        """Every node as written, aliases not followed."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            for item in node.items:
                waiting.extend(item if node.kind == "map" else (item,))


def line_of(text: str, offset: int) -> int:
    """The 1-based line of an offset, however lines end."""
    return sum(1 for _ in _NEWLINE.finditer(text, 0, offset)) + 1
