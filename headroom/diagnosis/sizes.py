"""Sizes as programs print them, read into GiB."""

from __future__ import annotations

import re
from functools import cache

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


@cache
def _fields() -> tuple[tuple[tuple[str, tuple[re.Pattern[str], ...]], ...], float]:
    data = configs.load("failures/sizes")
    fields = tuple((name, tuple(map(compile_pattern, data[name]))) for name in data if name != "largest_gib")
    return fields, float(data["largest_gib"])


def read_sizes(sentence: str) -> tuple[dict[str, list[float]], list[tuple[int, int]]]:
    """Every size field of ``configs/failures/sizes.yaml`` found in the sentence, in GiB, and the span of each.

    A field holds one value but for ``named_process_gib``, which holds one a process. Counters that overflowed
    (above ``largest_gib``) count as not printed.
    """
    fields, largest = _fields()
    found: dict[str, list[float]] = {}
    spans: list[tuple[int, int]] = []
    for name, patterns in fields:
        for pattern in patterns:
            matches = list(pattern.finditer(sentence))
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
