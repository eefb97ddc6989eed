"""The messages and stage marks of ``configs/failures``, made ready to look for. Code here knows none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property

from .. import configs
from .sizes import compile_pattern


@dataclass(frozen=True)
class Message:
    """One kind of message: where to try it (``find``), what proves it (``pattern``), what it stands for (``says``)."""

    id: str
    says: str
    find: tuple[str, ...]
    expression: str = ""
    in_sentence: bool = False
    has_sizes: bool = False
    in_warnings: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str] | None:
        return compile_pattern(self.expression) if self.expression else None

    def proved_by(self, text: str) -> bool:
        """Whether the text says it. ``text`` is the line, or the whole sentence where ``in_sentence``."""
        if self.pattern:
            return bool(self.pattern.search(text))
        low = text.lower()
        return any(each in low or each.replace(" ", "") in low for each in self.find)


@dataclass(frozen=True)
class Mark:
    """A text that belongs to a stage. ``also``: a second text of the line; ``start``: only where a line starts."""

    text: str
    stage: str
    also: str = ""
    start: bool = False
    inside: str = ""

    def on(self, line: str) -> bool:
        if self.start and not line.lstrip().startswith(self.text):
            return False
        return self.text in line and self.also in line


@dataclass(frozen=True)
class Frame:
    """A frame that gives away a stage, or what went on inside it: by its function, the end of its path, or both."""

    stage: str = ""
    function: str = ""
    file: str = ""
    inside: str = ""

    def is_at(self, file: str, function: str) -> bool:
        return (not self.function or self.function == function) and file.endswith(self.file)


@dataclass(frozen=True)
class Lines:
    """The regular expressions of ``lines.yaml``."""

    warning: re.Pattern[str]
    prefix: re.Pattern[str]
    ends_sentence: re.Pattern[str]
    job_name: re.Pattern[str]
    config_banner: re.Pattern[str]
    config_body: re.Pattern[bytes]
    traceback: str
    frame: re.Pattern[str]


@dataclass(frozen=True)
class Catalogue:
    messages: tuple[Message, ...]
    markers: tuple[Mark, ...]
    code: tuple[Mark, ...]
    hints: tuple[Mark, ...]
    frames: tuple[Frame, ...]
    bars: tuple[tuple[str, tuple[str, ...]], ...]
    lines: Lines
    ended_by: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def _texts(self) -> list[tuple[str, int]]:
        return [(text, index) for index, message in enumerate(self.messages) for text in message.find]

    def candidates(self, low: str) -> list[Message]:
        """The messages whose texts stand in a lower-cased line, in the catalogue's order."""
        found = {index for text, index in self._texts if text in low}
        return [self.messages[index] for index in sorted(found)]

    def marks_on(self, line: str) -> list[tuple[str, Mark]]:
        """The marks of a line, the first of each kind."""
        kinds = (("marker", self.markers), ("code", self.code), ("hint", self.hints))
        found = [(kind, mark) for kind, marks in kinds for mark in marks if mark.text in line and mark.on(line)]
        return [each for at, each in enumerate(found) if at == 0 or found[at - 1][0] != each[0]]

    @cached_property
    def worth_a_look(self) -> re.Pattern[bytes]:
        """Matches, in lower-cased bytes, where any text of the catalogue, a bar or a traceback frame stands."""
        texts = {each for message in self.messages for each in message.find}
        texts |= {mark.text.lower() for marks in (self.markers, self.code, self.hints) for mark in marks}
        texts |= {self.lines.traceback.lower(), 'file "', "running", "%|", "it/s", "s/it"}
        return re.compile(_alternatives(text.encode() for text in texts))


def _alternatives(texts: Iterable[bytes]) -> bytes:
    """One expression for many texts, shared beginnings written once: several times faster than a plain list of them."""
    tree: dict[int, dict] = {}
    end = -1
    for text in texts:
        node = tree
        for byte in text:
            node = node.setdefault(byte, {})
        node[end] = {}

    def written(node: dict[int, dict]) -> bytes:
        if end in node:  # a shorter text ends here; what follows does not matter for finding the place
            return b""
        branches = [re.escape(bytes([byte])) + written(below) for byte, below in sorted(node.items())]
        return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"

    return written(tree)


def _marks(rows: Iterable[dict], stage: str = "") -> tuple[Mark, ...]:
    return tuple(Mark(**{"stage": stage, **row}) for row in rows)


def _lines() -> Lines:
    rows = dict(configs.load("failures/lines"))
    traceback, body = rows.pop("traceback"), rows.pop("config_body")
    patterns = {name: re.compile(row) for name, row in rows.items()}
    return Lines(traceback=traceback, config_body=re.compile(body.encode(), re.DOTALL), **patterns)


@cache
def catalogue() -> Catalogue:
    """The catalogue, read once."""
    stages = configs.load("failures/stages")
    return Catalogue(
        messages=tuple(
            Message(
                row["id"],
                row["says"],
                tuple(row["find"]),
                row.get("pattern", ""),
                row.get("within") == "sentence",
                row.get("sizes", False),
                row.get("in_warnings", False),
            )
            for row in configs.load("failures/messages")
        ),
        markers=tuple(mark for stage, rows in stages["markers"].items() for mark in _marks(rows, stage)),
        code=_marks(stages["code"]),
        hints=_marks(stages["hints"]),
        frames=tuple(Frame(**row) for row in stages["frames"]),
        bars=tuple((stage, tuple(labels)) for stage, labels in stages["bars"].items()),
        lines=_lines(),
        ended_by={stage: tuple(texts) for stage, texts in stages["ended_by"].items()},
    )
