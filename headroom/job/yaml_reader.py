"""YAML read as AI Toolkit reads it: PyYAML's own scanner and scalars, and one more rule for floats.

PyYAML's parser in Python is used, not libyaml's: AI Toolkit uses that one, the two disagree (``key:<tab>value``), and
only its marks are exact. Nothing of the document is ever built into an object but numbers, text, lists and mappings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)
from yaml.resolver import Resolver

from .errors import JobError, wrong
from .tree import NESTING_LIMIT, NODE_LIMIT, VALUE_LIMIT, Entry, Node, Tree, line_of

_CORE = "tag:yaml.org,2002:"
_NUMBER_LENGTH = 400  # digits; reading a longer number costs time that grows with its square
_PROPERTY = re.compile(r"(?:&[^\s,\[\]{}]*|!<[^>]*>|![^\s,\[\]{}]*)")
_BETWEEN = re.compile(r"(?:\s|#[^\r\n]*)*")
_PLACEHOLDER = re.compile(r"\$\{([\w.:-]+)\}")
_MASK = "\ue000\ue001\ue002"  # private characters that stand for $, { and } while the text is scanned


class _Resolver(Resolver):
    """PyYAML's implicit types with AI Toolkit's float rule behind them."""


# A number with an exponent needs neither dot nor sign there (1e-4, 1.5e4), and a fraction may hold underscores only
# where YAML 1.1 wants a digit. Source: toolkit/config.py, the resolver added to its loader.
_Resolver.add_implicit_resolver(
    _CORE + "float",
    re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$|\.[0-9_]+(?:[eE][-+][0-9]+)?$"),
    list("-+0123456789."),
)


@cache
def _tools() -> tuple[Resolver, SafeConstructor]:
    return _Resolver(), SafeConstructor()


def scalar_type(text: str) -> str:
    """What AI Toolkit reads an unquoted word as: ``str``, ``int``, ``float``, ``bool``, ``null``, ``timestamp`` ..."""
    tag: str = _tools()[0].resolve(yaml.ScalarNode, text, (True, False))
    return tag.removeprefix(_CORE)


def read_yaml(text: str) -> Tree:
    """The tree of a YAML text. Raises JobError with the line of what cannot be read."""
    masked = _mask(text)
    try:
        root = _root(text, masked)
    except yaml.reader.ReaderError as error:
        line = line_of(text, error.position)
        raise wrong("job.error.not_text", line=line, code=f"U+{ord(text[error.position]):04X}") from None
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(text, error) from None
    return Tree(text, root, "yaml")


def _mask(text: str) -> str:
    """The text with ``${NAME}`` written so that its braces mean nothing to YAML, at the same offsets.

    AI Toolkit replaces these before it parses (toolkit/config.py replace_env_vars_in_string), so they may stand where
    braces may not; here they are kept.
    """
    if "${" not in text or any(mark in text for mark in _MASK):
        return text
    return _PLACEHOLDER.sub(rf"{_MASK[0]}{_MASK[1]}\1{_MASK[2]}", text)


def _unmask(value: str) -> str:
    if _MASK[0] in value:
        for mark, sign in zip(_MASK, "${}", strict=True):
            value = value.replace(mark, sign)
    return value


def _syntax_error(text: str, error: yaml.MarkedYAMLError) -> JobError:
    problem = error.problem or error.context or ""
    open_end = "end of stream" in problem or "stream end" in problem  # name the quote or bracket that was left open
    mark: Any = (open_end and error.context_mark) or error.problem_mark or error.context_mark
    line = line_of(text, mark.index) if mark else None
    if "\\t" in problem:
        return wrong("job.error.tab", line=line)
    return wrong("job.error.yaml", line=line or 1, column=mark.column + 1 if mark else 1, detail=problem[:120])


def _place(event: Any) -> tuple[int, int]:
    """Where an event starts and ends."""
    return event.start_mark.index, event.end_mark.index


def _line(event: Any) -> int:
    line: int = event.start_mark.line
    return line + 1


def _root(text: str, masked: str) -> Node:
    """Builds the tree from PyYAML's events, without recursion, stopping at the limits."""
    root: Node | None = None
    anchors: dict[str, Node] = {}
    open_nodes: list[Node] = []
    pending: list[Node | None] = []  # for each open mapping the key that waits for its value
    count = documents = pairs = 0
    events: Iterator[Any] = yaml.parse(masked, Loader=yaml.SafeLoader)
    for event in events:
        if isinstance(event, DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise wrong("job.error.documents", line=_line(event))
            continue
        if isinstance(event, CollectionEndEvent):
            node = open_nodes.pop()
            pending.pop()
            node.end = _place(event)[node.flow]
            _check_collection(text, node)
            if node.kind == "map" and any(key.is_merge for key, _ in node.items):
                pairs += sum(len(source.items) + len(source.inherited) for source in _merge_sources(node))
                if pairs > VALUE_LIMIT:
                    raise wrong("job.error.explodes", line=line_of(text, node.start), limit=VALUE_LIMIT)
                _inherit(node)
            continue
        if not isinstance(event, (AliasEvent, ScalarEvent, MappingStartEvent, SequenceStartEvent)):
            continue
        count += 1
        if count > NODE_LIMIT or len(open_nodes) > NESTING_LIMIT:
            key = "job.error.too_long" if count > NODE_LIMIT else "job.error.nested"
            raise wrong(key, line=_line(event))
        node = _node(text, event, anchors, open_nodes)
        if open_nodes:
            parent = open_nodes[-1]
            if parent.kind == "seq":
                parent.items.append(node)
            elif pending[-1] is None:
                pending[-1] = node
            else:
                parent.items.append((pending[-1], node))
                pending[-1] = None
        elif root is None:
            root = node
        if node.kind in ("map", "seq"):
            open_nodes.append(node)
            pending.append(None)
    if root is None:
        raise wrong("job.error.empty")
    return root


def _node(text: str, event: Any, anchors: dict[str, Node], open_nodes: list[Node]) -> Node:
    start, end = _place(event)
    node: Node
    if isinstance(event, AliasEvent):
        name = str(event.anchor)
        target = anchors.get(name)
        if target is None or any(target is node for node in open_nodes):
            key = "job.error.alias" if target is None else "job.error.recursive"
            raise wrong(key, line=_line(event), name=name[:60])
        node = Node("alias", start, start, end)
        node.target = target
        return node
    body = start
    if event.anchor is not None or (event.tag is not None and text[start : start + 1] == "!"):
        while (found := _PROPERTY.match(text, body)) and found.end() > body:
            body = found.end()
            after = _BETWEEN.match(text, body).end()  # type: ignore[union-attr]
            if isinstance(event, ScalarEvent) and after > end:
                break
            body = after
    if isinstance(event, ScalarEvent):
        node = Node("scalar", start, min(body, end), end)
        node.style = event.style
        node.raw = event.value
        _set_value(node, event)
    else:
        node = Node("map" if isinstance(event, MappingStartEvent) else "seq", start, body, end)
        node.flow = bool(event.flow_style)
        plain = _CORE + node.kind
        if event.tag not in (None, "!", plain):
            raise wrong("job.error.tag", line=_line(event), tag=_short(event.tag))
    node.tag = node.tag or event.tag
    if event.anchor is not None:
        if event.anchor in anchors:
            raise wrong("job.error.anchor_twice", line=_line(event), name=event.anchor[:60])
        node.anchor = event.anchor
        anchors[event.anchor] = node
    return node


def _short(tag: str) -> str:
    return (tag.replace(_CORE, "!!", 1) if tag.startswith(_CORE) else tag)[:60]


def _set_value(node: Node, event: Any) -> None:
    """Reads a scalar as PyYAML's SafeConstructor would; anything but text, numbers, booleans and null is refused."""
    resolver, constructor = _tools()
    line = _line(event)
    tag = event.tag
    if tag is None or tag == "!":
        tag = resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
    else:
        node.tag = tag
    kind = tag.removeprefix(_CORE)
    if kind in ("merge", "value"):
        node.tag = kind
        node.value = event.value
    elif kind == "str":
        node.value = _unmask(event.value)
    elif kind == "null":
        node.value = None
    elif kind in ("int", "float", "bool"):
        if len(event.value) > _NUMBER_LENGTH:
            raise wrong("job.error.number_length", line=line, limit=_NUMBER_LENGTH)
        scalar = yaml.ScalarNode(tag, event.value)
        try:
            node.value = getattr(constructor, f"construct_yaml_{kind}")(scalar)
        except (ValueError, KeyError, IndexError, OverflowError):
            raise wrong("job.error.value", line=line, value=event.value[:40], type=kind) from None
    elif kind == "timestamp":
        raise wrong("job.error.date", line=line, value=event.value[:40])
    else:
        raise wrong("job.error.tag", line=line, tag=_short(tag))


def _merge_sources(node: Node) -> list[Node]:
    """What a mapping's merge keys name, in the order written."""
    found = [value.real for key, value in node.items if key.is_merge]
    return [source.real for value in found for source in (value.items if value.kind == "seq" else [value])]


def _inherit(node: Node) -> None:
    """Lets PyYAML say what a mapping inherits: of two merged mappings the first wins, but for version 6.0.4's last."""
    keys: dict[int, Entry] = {}

    def mapping(source: Node) -> yaml.MappingNode:
        pairs = [*source.inherited, *(Entry(k, v, False) for k, v in source.items if not k.is_merge)]
        return yaml.MappingNode(_CORE + "map", [(_key(entry, keys), entry.value) for entry in pairs])

    asked = []
    for key, value in node.items:
        if key.is_merge:
            found = value.real
            sources: Any = [mapping(item.real) for item in found.items] if found.kind == "seq" else mapping(found)
            merged = yaml.SequenceNode(_CORE + "seq", sources) if found.kind == "seq" else sources
            asked.append((yaml.ScalarNode(_CORE + "merge", "<<"), merged))
    answer = yaml.MappingNode(_CORE + "map", asked)
    _tools()[1].flatten_mapping(answer)
    node.inherited = [keys[id(key)] for key, _ in answer.value]


def _key(entry: Entry, keys: dict[int, Entry]) -> yaml.ScalarNode:
    scalar = yaml.ScalarNode(_CORE + "str", entry.key.real.raw)
    keys[id(scalar)] = Entry(entry.key, entry.value, False)
    return scalar


def _check_collection(text: str, node: Node) -> None:
    """What PyYAML's constructor would refuse in a finished collection: bad keys, bad merges, a lone ``=``."""
    if node.kind == "seq":
        values = node.items
    else:
        values = []
        for key, value in node.items:
            if key.real.kind != "scalar":
                raise wrong("job.error.key", line=line_of(text, key.start))
            if not key.is_merge:
                values.append(value)
        if any(source.kind != "map" for source in _merge_sources(node)):
            raise wrong("job.error.merge", line=line_of(text, node.start))
    for value in values:
        if value.real.kind == "scalar" and value.real.tag in ("merge", "value"):
            raise wrong("job.error.value", line=line_of(text, value.start), value=value.real.value, type="str")
