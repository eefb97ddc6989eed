"""Sizes as programs print them, read into GiB."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property

from .. import configs

# A number with a byte unit. torch and numpy write KiB to GiB, MPS and memory_summary KB to GB for the same powers.
# No word boundary after it: where a wrapped line was joined, the next word follows at once.
# A number that a line break cut in two is not read: 23 and 64 may have been 23.64 or 2364.
CUT = "\x1f"
SIZE = r"(?<![\d.,\x1f])(\d[\d,]*(?:\.\d+)?) *([kmgt]i?b|bytes?|b)"
_NUMBER = frozenset("0123456789.,")
_GIB_PER_UNIT = {"b": 2.0**-30, "k": 2.0**-20, "m": 2.0**-10, "g": 1.0, "t": 2.0**10}


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern of ``configs/failures``: ``{size}`` is a size, a blank any white space, also none."""
    return re.compile(re.sub(r" [*?]?", r"\\s*", pattern.replace("{size}", SIZE)), re.IGNORECASE)


def join(lines: list[str]) -> tuple[str, list[int]]:
    """Lines that one sentence runs over, as one, and where in it each begins.

    Wrapped words and units come together, numbers that were cut in two do not.
    """
    joined, starts = "", []
    for line in lines:
        if joined and line and joined[-1] in _NUMBER and line[0] in _NUMBER:
            joined += CUT
        starts.append(len(joined))
        joined += line
    return joined, starts


def gib(number: str, unit: str) -> float:
    """``("1,024", "MiB")`` is 1.0."""
    return float(number.replace(",", "")) * _GIB_PER_UNIT[unit[0].lower()]


# What may be absent from a text that a pattern matches: groups, classes, escapes, the size, what ?, * and + count.
_NOT_LITERAL = re.compile(r"\(\?:[^)]*\)[?*+]?|\[[^\]]*\]|\{size\}|\\.|.[?*+]|[()]")


@dataclass(frozen=True)
class _Place:
    """Where a sentence may print a size: the pattern, and its longest literal text, without which it cannot match."""

    expression: str
    literal: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return compile_pattern(self.expression)


def _place(expression: str) -> _Place:
    parts = _NOT_LITERAL.sub("\0", expression).split("\0")
    return _Place(expression, max(parts, key=len).replace(" ", "").lower())


@cache
def _fields() -> tuple[dict[str, tuple[_Place, ...]], float]:
    data = configs.load("failures/sizes")
    fields = {name: tuple(map(_place, data[name])) for name in data if name != "largest_gib"}
    return fields, float(data["largest_gib"])


def read_sizes(sentence: str) -> tuple[dict[str, list[float]], list[tuple[int, int]]]:
    """Every size field of ``configs/failures/sizes.yaml`` found in the sentence, in GiB, and the span of each.

    A field holds one value but for ``named_process_gib``, which holds one a process. Counters that overflowed
    (above ``largest_gib``) count as not printed.
    """
    fields, largest = _fields()
    found: dict[str, list[float]] = {}
    spans: list[tuple[int, int]] = []
    squeezed = "".join(sentence.split()).lower()
    for name, places in fields.items():
        for place in places:
            matches = list(place.pattern.finditer(sentence)) if place.literal in squeezed else []
            if not matches:
                continue
            matches = matches if name == "named_process_gib" else matches[:1]
            values = [(gib(m[1], m[2]), (m.start(1), m.end(2))) for m in matches]
            values = [(value, span) for value, span in values if value <= largest]
            if values:
                found[name] = [value for value, _ in values]
                spans += [span for _, span in values]
            break
    return found, spans
