"""Take secrets and the names of home folders out of text that is about to be stored or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from ..configs import load


@dataclass(frozen=True)
class _Rule:
    marks: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    instead: bytes

    def applied(self, chunk: bytes, lowered: bytes) -> bytes:
        pieces = []
        done = 0
        for start, end in sorted(self._lines(lowered)):
            pieces += [chunk[done:start], self.pattern.sub(self._replaced, chunk[start:end])]
            done = end
        return b"".join([*pieces, chunk[done:]]) if pieces else chunk

    def _lines(self, lowered: bytes) -> set[tuple[int, int]]:
        lines = set()
        for mark in self.marks:
            at = lowered.find(mark)
            while at >= 0:
                end = lowered.find(b"\n", at)
                end = len(lowered) if end < 0 else end
                lines.add((lowered.rfind(b"\n", 0, at) + 1, end))
                at = lowered.find(mark, end)
        return lines

    def _replaced(self, match: re.Match[bytes]) -> bytes:
        start, end = match.span("secret")
        whole, offset = match.group(), match.start()
        return whole[: start - offset] + self.instead + whole[end - offset :]


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(
            tuple(mark.encode() for mark in rule["marks"]),
            re.compile(rule["pattern"].encode()),
            rule["instead"].encode(),
        )
        for rule in load("secrets")
    )


def masked_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Chunks of UTF-8 text, each ending at a line's end, with what is secret replaced. No line is added or lost.

    A secret that the text itself breaks over two lines is not recognised. Rules: ``configs/secrets.yaml``.
    """
    for chunk in chunks:
        clean, lowered = chunk, chunk.lower()
        for rule in _rules():
            before, clean = clean, rule.applied(clean, lowered)
            if clean is not before:
                lowered = clean.lower()
        yield clean


def masked(text: str) -> str:
    """The text with what is secret replaced; see ``masked_chunks``."""
    return b"".join(masked_chunks([text.encode("utf-8", "surrogatepass")])).decode("utf-8", "surrogatepass")
