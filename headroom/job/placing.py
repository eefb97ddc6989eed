"""Where in a job's text a new value goes: splices of one parsed text, for every style a value can stand in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from .errors import wrong
from .paths import Steps
from .tree import Node, Tree
from .writing import json_text, yaml_flow, yaml_item, yaml_lines, yaml_scalar

_LINE_END = re.compile(r"[\r\n\x85\u2028\u2029]|\Z")
_CLOSERS = re.compile(r"[ \t,\]}]*(?=[\r\n]|\Z)")
_ENTRY_END = re.compile(r"[ \t]*(,?)[ \t]*(?:#[^\r\n]*)?(?=[\r\n])")
_PROPERTIES = re.compile(r"(?:[&!]\S*[ \t]*)*")
_SAFE_IN_FLOW = re.compile(r"[^\r\n,\[\]{}#]*|\$\{[\w.:-]+\}")

_INLINE, _TRAILING, _LINE = range(3)  # what goes first where splices meet at one place


class Splice(NamedTuple):
    """Text that takes the place of ``[start, end)``; ``owner`` is the node whose siblings may be inserted there too."""

    start: int
    end: int
    text: str
    rank: int = _INLINE
    owner: int = 0


class Spot(NamedTuple):
    """Where a path has led: the node, its key (in a mapping) and the collection that holds it."""

    node: Node
    key: Node | None = None
    parent: Node | None = None

    @property
    def head(self) -> Node:
        """What the value's line begins with."""
        return self.key or self.node


class Placing:
    """Collects the splices of changes to one parsed text."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.source = tree.text
        self.json = tree.syntax == "json"
        self.splices: list[Splice] = []
        self.newline = "\r\n" if "\r\n" in self.source else "\n"

    def text(self) -> str:
        """The text with everything collected put in."""
        pieces, at = [], 0
        for splice in sorted(self.splices, key=lambda splice: (splice.start, splice.end, splice.rank)):
            pieces += [self.source[at : splice.start], splice.text]
            at = splice.end
        return "".join([*pieces, self.source[at:]])

    def put(self, steps: Steps, value: Any, note: str | None) -> bool:
        """Collects what sets a value; false, with nothing collected, where that touches what is collected already.

        Raises JobError for a path into something that is no mapping or has no such entry.
        """
        new = self._route(steps, value, None if self.json else note)
        if any(_touch(old, splice) for old in self.splices for splice in new):
            return False
        self.splices += new
        return True

    # -- the way to a value

    def _route(self, steps: Steps, value: Any, note: str | None) -> list[Splice]:
        spot = Spot(self.tree.root)
        passed = [spot.node]
        for at, step in enumerate(steps):
            node, rest = spot.node, steps[at:]
            if node.kind == "map" and step in node.entries and node.entries[step].own:
                entry = node.entries[step]
                spot = Spot(entry.value, entry.key, node)
                passed.append(spot.node)
                continue
            if node.kind == "seq" and isinstance(step, int) and step < len(node.items):
                spot = Spot(node.items[step], None, node)
                passed.append(spot.node)
                continue
            if node.kind == "alias":
                new = self._through_alias(spot, rest, value, note)
            elif node.kind == "map" and isinstance(step, str):
                new = self._add(node, rest, value, note)
            elif node.kind == "scalar" and node.value is None and isinstance(step, str):
                new = self._fill(spot, rest, value, note)
            else:
                raise wrong("job.error.no_entry", line=self.tree.line(node.start), path=str(step))
            return new + self._freeze(passed, new)
        new = self._replace(spot, value, note)
        return new + self._freeze(passed, new)

    def _through_alias(self, spot: Spot, rest: Steps, value: Any, note: str | None) -> list[Splice]:
        """Writes out an alias on the way: a mapping keeps all it had by merging what the alias stands for."""
        node, step = spot.node, rest[0]
        if node.real.kind == "map":
            entry = node.real.entries.get(step)
            below = self._written(entry.value if entry else None, rest[1:], value)
            text = f"{{<<: {self.source[node.start : node.end]}, {yaml_scalar(step)}: {below}}}"
        else:
            text = self._written(node, rest, value)
        return [Splice(node.start, node.end, text), *self._note(node.end, spot.head, note)]

    def _written(self, node: Node | None, rest: Steps, value: Any) -> str:
        """What a node says, on one line of YAML, with a value set below it."""
        if not rest:
            return yaml_flow(value)
        step, real = rest[0], node.real if node else None
        if real is not None and real.kind == "seq" and isinstance(step, int) and step < len(real.items):
            items = (
                self._written(v, rest[1:], value) if i == step else self._copy(v) for i, v in enumerate(real.items)
            )
            return f"[{', '.join(items)}]"
        if not isinstance(step, str) or (real is not None and real.kind != "map" and real.value is not None):
            raise wrong("job.error.no_entry", path=str(step))
        entries = real.entries if real else {}
        parts = [
            f"{self._copy(e.key)}: {self._written(e.value, rest[1:], value) if name == step else self._copy(e.value)}"
            for name, e in entries.items()
        ]
        if step not in entries:
            parts.append(f"{yaml_scalar(step)}: {self._written(None, rest[1:], value)}")
        return f"{{{', '.join(parts)}}}"

    def _copy(self, node: Node) -> str:
        """What a node says, on one line of YAML, its scalars as they are written where that can stand there."""
        node = node.real
        if node.kind == "map":
            pairs = (f"{self._copy(entry.key)}: {self._copy(entry.value)}" for entry in node.entries.values())
            return f"{{{', '.join(pairs)}}}"
        if node.kind == "seq":
            return f"[{', '.join(self._copy(item) for item in node.items)}]"
        written = self.source[node.body : node.end]
        quoted = node.style in ("'", '"') and _LINE_END.search(written).end() == len(written)  # type: ignore[union-attr]
        if node.tag is None and written and (quoted or (node.style is None and _SAFE_IN_FLOW.fullmatch(written))):
            return written
        return yaml_scalar(node.value)

    def _freeze(self, passed: Sequence[Node], new: Sequence[Splice]) -> list[Splice]:
        """Writes out the aliases of everything that the splices change or take away: they keep what they stood for."""
        gone = [splice for splice in new if splice.start < splice.end]
        changed = {id(node) for node in passed if node.anchor}
        nodes = list(self.tree.nodes())
        changed |= {id(node) for node in nodes if node.anchor and _within(node, gone)}
        if not changed:
            return []
        return [
            Splice(node.start, node.end, self._copy(node))
            for node in nodes
            if node.kind == "alias" and id(node.target) in changed and not _within(node, gone)
        ]

    # -- a key that is not there yet

    def _add(self, node: Node, steps: Steps, value: Any, note: str | None) -> list[Splice]:
        key, rest = str(steps[0]), steps[1:]
        inherited = node.entries.get(key)
        if inherited is not None and rest:  # it comes through a merge key: all of it is written out here
            text = self._written(inherited.value, rest, value)
            if node.flow:
                return self._add_flow(node, key, text, note)
            return self._add_lines(node, [f"{yaml_scalar(key)}: {text}"], note)
        value = _nested(rest, value)
        if node.flow:
            return self._add_flow(node, key, json_text(value) if self.json else yaml_flow(value), note)
        return self._add_lines(node, yaml_lines(key, value, 0), note)

    def _add_lines(self, node: Node, lines: list[str], note: str | None) -> list[Splice]:
        """New lines at the end of a block, before the blank lines and comments that follow it."""
        first = node.items[0][0]
        indent = " " * self._column(first.start)
        lines = [indent + line for line in lines]
        if note:
            lines[-1] += f"  # {note}"
        at = self._content_end(node)
        if at > 0 and self.source[at - 1] in "\r\n":  # a block text that keeps the line breaks after it
            return [Splice(at, at, "".join(line + self.newline for line in lines), _LINE, id(node))]
        if at == len(self.source) and self._last(node).style in ("|", ">"):
            # A line break after this text would become part of it: go first.
            text = self.newline.join([*lines, indent])
            return [Splice(first.start, first.start, text[len(indent) :], _LINE, id(node))]
        at = self._line_end(at)
        return [Splice(at, at, "".join(self.newline + line for line in lines), _LINE, id(node))]

    def _add_flow(self, node: Node, key: str, shown: str, note: str | None) -> list[Splice]:
        """A new pair at the end of a mapping in braces, spaced and quoted like those before it."""
        quoted = self.json or (node.items and all(key.style == '"' for key, _ in node.items))
        name = json_text(key) if quoted else yaml_scalar(key)
        if not node.items:
            return [
                Splice(node.body + 1, node.end - 1, f"{name}: {shown}", owner=id(node)),
                *self._note(node.end, node, note),
            ]
        last_key, last = node.items[-1]
        at = max(last.end, last_key.end)
        colon = self.source[last_key.end : last.start]
        colon = colon if re.fullmatch(r" *:[ \t]*" if self.json else r" *: +", colon) else ": "
        if self.source[node.body] != "{":  # a pair alone in a list: [a: 1]
            return [Splice(node.body, node.body, "{"), Splice(at, at, f", {name}{colon}{shown}}}", owner=id(node))]
        start = max(node.items[-2][0].end, node.items[-2][1].end) if len(node.items) > 1 else node.body + 1
        between = self.source[start : last_key.start]
        if len(node.items) == 1:
            between = "," + (between if "\n" in between else " ")
        between = between if re.fullmatch(r",\s*" if self.json else r",\s+", between) else ", "
        return [
            Splice(at, at, f"{between}{name}{colon}{shown}", owner=id(node)),
            *self._note(at, last_key, note),
        ]

    def _fill(self, spot: Spot, steps: Steps, value: Any, note: str | None) -> list[Splice]:
        """Gives a null its first key: ``train:`` becomes a block, ``train: null`` stays on its line."""
        node, key, parent = spot
        value = _nested(steps, value)
        if key is None or parent is None or parent.flow or node.start < node.end:
            return self._replace(spot, value, note)
        indent = " " * (self._column(key.start) + 2)
        lines = [indent + line for name, item in value.items() for line in yaml_lines(name, item, 0)]
        if note:
            lines[-1] += f"  # {note}"
        at = self._line_end(node.end)
        return [Splice(at, at, "".join(self.newline + line for line in lines), _LINE, id(node))]

    # -- a value that is there

    def _replace(self, spot: Spot, value: Any, note: str | None) -> list[Splice]:
        node = spot.node
        if self.json:
            return self._list_items(node, value) or [Splice(node.start, node.end, json_text(value))]
        if node.kind in ("map", "seq") and not node.flow:
            new = self._list_lines(node, value) or self._block_to_flow(spot, value)
            return new + self._note_block(spot, note)
        new = self._list_items(node, value)
        if new:
            return new + self._note(node.end, spot.head, note)
        end = node.end if node.style not in ("|", ">") else self._text_end(node)
        text = yaml_flow(value, node.style)
        if node.start == node.end:  # a null that is not written at all
            before = self.source[node.start - 1 : node.start]
            text = text if before.isspace() else f" {text}"
            if spot.key is not None and ":" not in self.source[spot.key.end : node.start]:
                text = f":{text}"
        return [Splice(node.start, end, text), *self._note(end, spot.head, note)]

    def _list_items(self, node: Node, value: Any) -> list[Splice]:
        """Changes to a list in brackets: entries taken out or replaced one by one, the rest left as written."""
        if node.kind != "seq" or not node.items or not isinstance(value, list) or not value:
            return []
        old = [_data(item) for item in node.items]
        kept = _kept(old, value)
        if kept is None:
            return self._items_replaced(node, old, value)
        lines = [self._own_line(item, node) for at, item in enumerate(node.items) if at not in kept]
        if lines and all(lines):
            last = node.items[max(kept)]
            comma = self.source.find(",", last.end) if self.json and last is not node.items[-1] else None
            commas = [Splice(comma, comma + 1, "")] if comma is not None else []
            return [*commas, *(Splice(*line, "") for line in lines if line)]
        new = []
        for at, item in enumerate(node.items):
            if at not in kept and at > min(kept):
                new.append(Splice(node.items[at - 1].end, item.end, ""))
            elif at not in kept:
                new.append(Splice(item.start, node.items[at + 1].start, ""))
        return new

    def _own_line(self, item: Node, node: Node) -> tuple[int, int] | None:
        """The whole line of an entry in brackets that stands alone on it, comma and all, and the line break before."""
        start = self._line_start(item.start)
        rest = _ENTRY_END.match(self.source, item.end)
        if start == 0 or not rest or self.source[start : item.start].strip() or self._line_start(item.end) != start:
            return None
        if not rest[1] and item is not node.items[-1]:
            return None
        return len(self.source[:start].removesuffix("\n").removesuffix("\r")), rest.end()

    def _items_replaced(self, node: Node, old: Sequence[Any], value: Sequence[Any]) -> list[Splice]:
        if len(old) != len(value):
            return []
        return [
            Splice(item.start, item.end, json_text(new) if self.json else yaml_flow(new, item.style))
            for item, was, new in zip(node.items, old, value, strict=True)
            if not _equal(was, new)
        ]

    def _list_lines(self, node: Node, value: Any) -> list[Splice]:
        """Changes to a list of lines: entries put behind it, taken out with their line or replaced in it."""
        if node.kind != "seq" or not isinstance(value, list) or not value:
            return []
        count = len(node.items)
        if count < len(value) and all(_equal(_data(item), new) for item, new in zip(node.items, value, strict=False)):
            return self._append_lines(node, value[count:])
        lines = [self._dash_line(item) for item in node.items]
        if not all(lines):
            return []
        old = [_data(item) for item in node.items]
        kept = _kept(old, value)
        if kept is None:
            return self._items_replaced(node, old, value)
        return [Splice(*line, "") for at, line in enumerate(lines) if line and at not in kept]

    def _append_lines(self, node: Node, more: list[Any]) -> list[Splice]:
        """More entries behind a list of lines; nothing where the list begins on another's line or ends in open text."""
        line = self._line_start(node.body)
        end = self._content_end(node)
        if self.source[line : node.body].strip(" \ufeff") or self._last(node).style in ("|", ">"):
            return []
        column = self._column(node.body)
        at = self._line_end(end)
        lines = [text for item in more for text in yaml_item(item, column)]
        return [Splice(at, at, "".join(self.newline + text for text in lines), _LINE, id(node))]

    def _dash_line(self, item: Node) -> tuple[int, int] | None:
        """The whole line of a one-line list entry, with the line break before it."""
        start = self._line_start(item.start)
        one_line = item.kind in ("scalar", "alias") and item.style not in ("|", ">")
        if not one_line or start == 0 or self._line_start(item.end) != start:
            return None
        if not re.fullmatch(r" *- +", self.source[start : item.start]):
            return None
        return len(self.source[:start].removesuffix("\n").removesuffix("\r")), self._line_end(item.end)

    def _block_to_flow(self, spot: Spot, value: Any) -> list[Splice]:
        """Puts a value on its key's line in place of the lines below it."""
        node, key, _ = spot
        end, shown = self._text_end(node), yaml_flow(value)
        if key is None or self._line_start(key.start) == self._line_start(node.body):
            return [Splice(node.start, end, shown)]
        start = key.end + self.source[key.end : node.start + 1].index(":") + 1
        head = self._properties_end(node) if node.start < node.body else start
        line_end = self._line_end(head)
        return [Splice(start, head, f" {shown}"), Splice(line_end, self._line_end(end), "")]

    # -- comments

    def _note(self, end: int, head: Node, note: str | None) -> list[Splice]:
        """The reason: after the value where its line has room, else on a line of its own above the key."""
        if not note:
            return []
        rest = _CLOSERS.match(self.source, end)
        if rest:
            return [Splice(rest.end(), rest.end(), f"  # {note}", _TRAILING)]
        return [self._above(head, note)]

    def _note_block(self, spot: Spot, note: str | None) -> list[Splice]:
        """The same for a block, whose key stands on a line of its own."""
        node, key, _ = spot
        if not note:
            return []
        if key is None or self._line_start(key.start) == self._line_start(node.body):
            return [self._above(spot.head, note)]
        colon = key.end + self.source[key.end : node.start + 1].index(":") + 1
        return self._note(self._properties_end(node) if node.start < node.body else colon, key, note)

    def _above(self, head: Node, note: str) -> Splice:
        line = self._line_start(head.start)
        while line > 0 and self._inside_scalar(line):
            line = self._line_start(line - 1)
        indent = re.compile(r"\s*").match(self.source, line).end() - line if line else 0  # type: ignore[union-attr]
        return Splice(line, line, f"{' ' * indent}# {note}{self.newline}")

    def _inside_scalar(self, at: int) -> bool:
        return any(node.kind == "scalar" and node.start < at < node.end for node in self.tree.nodes())

    # -- places

    def _line_start(self, at: int) -> int:
        return max(self.source.rfind(sign, 0, at) for sign in "\r\n") + 1

    def _line_end(self, at: int) -> int:
        return _LINE_END.search(self.source, at).start()  # type: ignore[union-attr]

    def _column(self, at: int) -> int:
        start = self._line_start(at)
        return at - start - (1 if self.source[start : start + 1] == "\ufeff" else 0)

    def _properties_end(self, node: Node) -> int:
        """Where a node's anchor and tag end."""
        found = _PROPERTIES.match(self.source, node.start)
        return node.start + len(found.group().rstrip()) if found else node.start

    def _last(self, node: Node) -> Node:
        """The innermost node at the end of a block."""
        while node.kind in ("map", "seq") and not node.flow:
            node = node.items[-1][1] if node.kind == "map" else node.items[-1]
        return node

    def _content_end(self, node: Node) -> int:
        """Where a node's own text ends, before the line breaks and comments that follow a block."""
        if node.kind in ("map", "seq") and not node.flow:
            last = node.items[-1]
            if node.kind == "seq":
                return self._content_end(last)
            return max(last[0].end, self._content_end(last[1]))
        if node.kind == "scalar" and node.style in ("|", ">"):
            head = self.source[node.body : self._line_end(node.body)].split("#")[0]
            if "+" in head:
                return node.end
            return node.body + len(self.source[node.body : node.end].rstrip())
        return node.end

    def _text_end(self, node: Node) -> int:
        """The same without any line break at the end, even one that belongs to a block text."""
        return node.start + len(self.source[node.start : self._content_end(node)].rstrip("\r\n"))


def _touch(one: Splice, other: Splice) -> bool:
    """Whether two splices of different changes cannot stand in one text."""
    if one.rank == other.rank == _TRAILING:
        return False
    if one.start == one.end == other.start == other.end:
        return one.rank == other.rank and one.owner != other.owner
    if one.start == one.end:
        return other.start < one.start < other.end
    if other.start == other.end:
        return one.start < other.start < one.end
    return one.start < other.end and other.start < one.end


def _within(node: Node, splices: Sequence[Splice]) -> bool:
    return any(splice.start <= node.start < splice.end for splice in splices)


def _nested(steps: Steps, value: Any) -> Any:
    """The value inside new mappings, one for each step."""
    for step in reversed(steps):
        if not isinstance(step, str):
            raise wrong("job.error.no_entry", path=f"[{step}]")
        value = {step: value}
    return value


def _data(node: Node) -> Any:
    real = node.real
    if real.kind == "map":
        return {name: _data(entry.value) for name, entry in real.entries.items()}
    if real.kind == "seq":
        return [_data(item) for item in real.items]
    return real.value


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _kept(old: Sequence[Any], new: Sequence[Any]) -> set[int] | None:
    """The places of ``old`` that remain if ``new`` is ``old`` with entries taken out; ``None`` if it is not."""
    kept: set[int] = set()
    at = 0
    for item in new:
        while at < len(old) and not _equal(old[at], item):
            at += 1
        if at == len(old):
            return None
        kept.add(at)
        at += 1
    return kept
