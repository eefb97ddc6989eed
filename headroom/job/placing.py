"""Where in a job's text a new value goes: splices of one parsed text, for every style a value can stand in."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from .errors import wrong
from .paths import Steps
from .tree import Node, Tree
from .writing import json_text, yaml_flow, yaml_lines, yaml_scalar

_LINE_END = re.compile(r"[\r\n\x85\u2028\u2029]|$")
_CLOSERS = re.compile(r"[ \t,\]}]*(?=[\r\n]|$)")

INLINE, TRAILING, LINE = range(3)  # what goes first where splices meet at one place


class Splice(NamedTuple):
    """Text that takes the place of ``[start, end)``; ``owner`` is the node whose siblings may be inserted there too."""

    start: int
    end: int
    text: str
    rank: int = INLINE
    owner: int = 0


class Placing:
    """Collects the splices of changes to one parsed text."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.source = tree.text
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
        new = self._route(steps, value, note)
        if any(_touch(old, splice) for old in self.splices for splice in new):
            return False
        self.splices += new
        return True

    def write_out(self, steps: Steps, wanted: Any) -> bool:
        """Collects what replaces the alias or merge key through which a key arrives that must not be there."""
        node, found, data = self.tree.root, None, wanted
        for step in steps:
            if node.kind == "alias":
                found = (node, data)
            real = node.real
            if real.kind == "map":
                entry = real.entries[step]
                if not entry.own:
                    found = (real, data)
                node = entry.value
            else:
                node = real.items[step]
            data = data[step] if isinstance(data, list) else data.get(step)
        if found is None:
            return False
        holder, data = found
        if holder.kind == "alias":
            self.splices.append(Splice(holder.start, holder.end, yaml_flow(data)))
            return True
        return self._unmerge(holder, data)

    # -- the way to a value

    def _route(self, steps: Steps, value: Any, note: str | None) -> list[Splice]:
        node, key, parent = self.tree.root, None, None
        for at, step in enumerate(steps):
            rest = steps[at:]
            if node.kind == "alias":
                return self._through_alias(node, rest, value) + self._note(node, node.end, key or node, note)
            if node.kind == "map":
                entry = node.entries.get(step)
                if entry is None:
                    return self._add(node, step, self._nested(rest[1:], value), note)
                if not entry.own and len(rest) > 1:
                    return self._add(node, step, _with(_data(entry.value), rest[1:], value), note)
                if not entry.own:
                    return self._add(node, step, value, note)
                parent, key, node = node, entry.key, entry.value
            elif node.kind == "seq" and isinstance(step, int) and step < len(node.items):
                parent, key, node = node, None, node.items[step]
            elif node.kind == "scalar" and node.value is None and isinstance(step, str):
                return self._fill(node, key, parent, self._nested(rest, value), note)
            else:
                raise wrong("job.error.no_entry", line=self.tree.line(node.start), path=str(step))
        return self._replace(node, key, parent, value, note)

    def _nested(self, steps: Steps, value: Any) -> Any:
        for step in reversed(steps):
            value = {step: value}
        return value

    def _through_alias(self, node: Node, rest: Steps, value: Any) -> list[Splice]:
        """Writes out an alias on the way: a mapping keeps all it had by merging what the alias stands for."""
        real = node.real
        if real.kind == "map":
            step = rest[0]
            below = _with(_data(real.entries[step].value) if step in real.entries else None, rest[1:], value)
            alias = self.source[node.start : node.end]
            text = f"{{<<: {alias}, {yaml_scalar(step)}: {yaml_flow(below)}}}"
        else:
            text = yaml_flow(_with(_data(node), rest, value))
        return [Splice(node.start, node.end, text)]

    # -- a key that is not there yet

    def _add(self, node: Node, key: str, value: Any, note: str | None) -> list[Splice]:
        if node.flow:
            return self._add_flow(node, key, value, note)
        first = node.items[0][0]
        indent = self._column(first.start)
        lines = yaml_lines(key, value, indent)
        lines = self._noted_lines(lines, note)
        at = self._content_end(node)
        if at > 0 and self.source[at - 1] in "\r\n":  # a block text keeps its last line break to itself
            return [Splice(at, at, "".join(line + self.newline for line in lines), LINE, id(node))]
        if at == len(self.source) and self._last(node).style in ("|", ">"):
            # a line break after this text would become part of it: go first
            at = first.start
            text = (self.newline + " " * indent).join(line[indent:] for line in lines)
            return [Splice(at, at, f"{text}{self.newline}{' ' * indent}", LINE, id(node))]
        at = self._line_end(at)
        return [Splice(at, at, "".join(self.newline + line for line in lines), LINE, id(node))]

    def _noted_lines(self, lines: list[str], note: str | None) -> list[str]:
        """New lines with the reason on the line that holds the value (the last one)."""
        return [*lines[:-1], f"{lines[-1]}  # {note}"] if note else lines

    def _add_flow(self, node: Node, key: str, value: Any, note: str | None) -> list[Splice]:
        text = self.source
        json = self.tree.syntax == "json"
        quoted = json or (node.items and all(k.style == '"' for k, _ in node.items))
        name = json_text(key) if quoted else yaml_scalar(key)
        shown = json_text(value) if json else yaml_flow(value)
        if not node.items:
            new = [Splice(node.body + 1, node.end - 1, f"{name}: {shown}", owner=id(node))]
            return new + self._note(node, node.end, node, note)
        last_key, last = node.items[-1]
        at = max(self._content_end(last), last_key.end)
        colon = text[last_key.end : last.body] if last.kind == "scalar" and last.body > last_key.end else ": "
        if not re.fullmatch(r"\s*:\s*", colon) or "\n" in colon or (not json and not colon.endswith(" ")):
            colon = ": "
        if text[node.body] != "{":  # a pair alone in a list: [a: 1]
            return [
                Splice(node.body, node.body, "{"),
                Splice(at, at, f", {name}{colon}{shown}}}", owner=id(node)),
            ]
        start = node.items[-2][1].end if len(node.items) > 1 else node.body + 1
        between = text[start : last_key.start]
        between = between if len(node.items) > 1 else "," + (between if "\n" in between else " ")
        if not re.fullmatch(r",\s*", between) or (not json and between == ","):
            between = ", "
        new = [Splice(at, at, f"{between}{name}{colon}{shown}", owner=id(node))]
        return new + self._note(last, at, last_key, note)

    def _fill(self, node: Node, key: Node | None, parent: Node | None, value: Any, note: str | None) -> list[Splice]:
        """Gives a null its first key: ``train:`` becomes a block, ``train: null`` or ``{}`` stays on its line."""
        block = parent is not None and not parent.flow and parent.kind == "map" and key is not None
        if block and node.start == node.end and key is not None:
            indent = self._column(key.start)
            lines = [line for name, item in value.items() for line in yaml_lines(name, item, indent + 2)]
            at = self._line_end(node.end)
            return [
                Splice(at, at, "".join(self.newline + line for line in self._noted_lines(lines, note)), LINE, id(node))
            ]
        return self._replace(node, key, parent, value, note)

    # -- a value that is there

    def _replace(self, node: Node, key: Node | None, parent: Node | None, value: Any, note: str | None) -> list[Splice]:
        if self.tree.syntax == "json":
            return self._list_items(node, value) or [Splice(node.start, node.end, json_text(value))]
        spot = key or node
        if node.kind in ("map", "seq") and not node.flow:
            new = self._list_lines(node, value) if node.kind == "seq" else None
            return (new or self._block_to_flow(node, key, value)) + self._note(node, spot.end, spot, note, headed=True)
        new = self._list_items(node, value) if node.kind == "seq" else None
        if new:
            return new + self._note(node, node.end, spot, note)
        text = yaml_flow(value, node.style)
        if node.anchor is not None:
            text = f"&{node.anchor} {text}"
        end = node.end
        if node.kind == "scalar" and node.style in ("|", ">"):
            end = self._content_end(node)
            end -= len(self.source[node.start : end]) - len(self.source[node.start : end].rstrip("\r\n"))
        if node.start == node.end:
            before = self.source[node.start - 1 : node.start]
            text = text if before.isspace() else f" {text}"
            if before != ":" and key is not None and ":" not in self.source[key.end : node.start]:
                text = f":{text}"
        return [Splice(node.start, end, text)] + self._note(node, end, spot, note)

    def _list_items(self, node: Node, value: Any) -> list[Splice] | None:
        """Changes to a list in brackets: entries taken out or replaced one by one, the rest left as written."""
        old = [_data(item) for item in node.items]
        if node.kind != "seq" or not isinstance(value, list) or not value or not old:
            return None
        render = json_text if self.tree.syntax == "json" else yaml_flow
        kept = _kept(old, value)
        if kept is None:
            if len(old) != len(value):
                return None
            return [
                Splice(item.start, item.end, render(new))
                for item, was, new in zip(node.items, old, value, strict=True)
                if not _equal(was, new)
            ]
        new = []
        for at, item in enumerate(node.items):
            if at in kept:
                continue
            before = [k for k in kept if k < at]
            if before:
                new.append(Splice(node.items[at - 1].end, item.end, ""))
            else:
                new.append(Splice(item.start, node.items[at + 1].start, ""))
        return new

    def _list_lines(self, node: Node, value: Any) -> list[Splice] | None:
        """Changes to a list of lines: entries taken out with their line or replaced in it."""
        old = [_data(item) for item in node.items]
        if not isinstance(value, list) or not value or not old:
            return None
        lines = [self._dash_line(item) for item in node.items]
        if None in lines or len({line for line in lines if line}) != len(lines):
            return None
        kept = _kept(old, value)
        if kept is None:
            if len(old) != len(value):
                return None
            return [
                Splice(item.start, item.end, yaml_flow(new, item.style))
                for item, was, new in zip(node.items, old, value, strict=True)
                if not _equal(was, new)
            ]
        return [Splice(line[0], line[1], "") for at, line in enumerate(lines) if line and at not in kept]

    def _dash_line(self, item: Node) -> tuple[int, int] | None:
        """The whole line of a one-line list entry, without the line break before it."""
        if item.kind != "scalar" or item.style in ("|", ">"):
            return None
        start = self._line_start(item.start)
        if not re.fullmatch(r" *- +", self.source[start : item.start]) or start == 0:
            return None
        end = self._line_end(item.end)
        if self._line_start(item.end) != start:
            return None
        before = start - (2 if self.source[start - 2 : start] == "\r\n" else 1)
        return before, end

    def _block_to_flow(self, node: Node, key: Node | None, value: Any) -> list[Splice]:
        """Puts a value on its key's line in place of the lines below it."""
        end = self._content_end(node)
        shown = yaml_flow(value)
        if key is None or self._line_start(key.start) == self._line_start(node.body):
            anchor = f"&{node.anchor} " if node.anchor else ""
            return [Splice(node.start, end, anchor + shown)]
        colon = key.end + self.source[key.end : node.start + 1].index(":") + 1
        if node.anchor:
            colon = node.start + len(node.anchor) + 1
        line_end = self._line_end(colon)
        return [Splice(colon, colon, f" {shown}"), Splice(line_end, self._line_end(end), "")]

    def _unmerge(self, node: Node, data: dict[str, Any]) -> bool:
        """Replaces a mapping's merge keys by the pairs that came through them and are wanted."""
        own = {name for name, entry in node.entries.items() if entry.own}
        wanted = {name: value for name, value in data.items() if name not in own}
        merges = [(key, value) for key, value in node.items if key.is_merge]
        for at, (key, value) in enumerate(merges):
            end = self._content_end(value)
            if node.flow:
                text = ", ".join(f"{yaml_scalar(name)}: {yaml_flow(item)}" for name, item in wanted.items())
            else:
                indent = self._column(key.start)
                lines = [line for name, item in wanted.items() for line in yaml_lines(name, item, indent)]
                text = (self.newline + " " * indent).join(
                    line[indent:] if line.startswith(" " * indent) else line for line in lines
                )
            if at or not wanted:
                return False
            self.splices.append(Splice(key.start, end, text))
        return bool(merges)

    # -- comments

    def _note(self, node: Node, end: int, spot: Node, note: str | None, headed: bool = False) -> list[Splice]:
        """The reason: after the value where its line has room, else on a line of its own above the key."""
        if not note or self.tree.syntax == "json":
            return []
        at = end
        if headed:
            at = self._head_end(spot, node)
        rest = _CLOSERS.match(self.source, at)
        if rest and not (headed and rest.end() >= self._content_end(node)):
            return [Splice(rest.end(), rest.end(), f"  # {note}", TRAILING)]
        return [self._above(spot, note)]

    def _head_end(self, spot: Node, node: Node) -> int:
        colon = self.source.find(":", spot.end)
        return max(colon + 1, node.start + len(node.anchor) + 1 if node.anchor else 0)

    def _above(self, spot: Node, note: str) -> Splice:
        line = self._line_start(spot.start)
        while line > 0 and self._inside_scalar(line):
            line = self._line_start(line - 1)
        indent = len(re.match(r"\s*", self.source[line:]).group()) if line else 0  # type: ignore[union-attr]
        return Splice(line, line, f"{' ' * indent}# {note}{self.newline}", INLINE)

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

    def _last(self, node: Node) -> Node:
        """The innermost node at the end of a block."""
        while node.kind in ("map", "seq") and not node.flow and node.items:
            node = node.items[-1][1] if node.kind == "map" else node.items[-1]
        return node

    def _content_end(self, node: Node) -> int:
        """Where a node's own text ends, before the line breaks and comments that follow a block."""
        if node.kind in ("map", "seq") and not node.flow and node.items:
            if node.kind == "seq":
                return self._content_end(node.items[-1])
            key, value = node.items[-1]
            return max(key.end, self._content_end(value))
        if node.kind == "scalar" and node.style in ("|", ">"):
            head = self.source[node.body : self._line_end(node.body)].split("#")[0]
            if "+" in head:
                return node.end
            return node.body + len(self.source[node.body : node.end].rstrip())
        return node.end


def _touch(one: Splice, other: Splice) -> bool:
    """Whether two splices of different changes cannot stand in one text."""
    if one.rank == TRAILING and other.rank == TRAILING:
        return False
    if one.start == one.end == other.start == other.end:
        return one.rank == other.rank and one.owner != other.owner
    if one.start == one.end:
        return other.start < one.start < other.end
    if other.start == other.end:
        return one.start < other.start < one.end
    return one.start < other.end and other.start < one.end


def _data(node: Node) -> Any:
    real = node.real
    if real.kind == "map":
        return {name: _data(entry.value) for name, entry in real.entries.items()}
    if real.kind == "seq":
        return [_data(item) for item in real.items]
    return real.value


def _with(data: Any, steps: Steps, value: Any) -> Any:
    """A copy of the data with a value set in it."""
    if not steps:
        return value
    step = steps[0]
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        return [_with(item, steps[1:], value) if at == step else copy.deepcopy(item) for at, item in enumerate(data)]
    if isinstance(step, str) and (data is None or isinstance(data, dict)):
        return {**(data or {}), step: _with((data or {}).get(step), steps[1:], value)}
    raise wrong("job.error.no_entry", path=str(step))


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


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
