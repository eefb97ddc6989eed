"""Progress bars of tqdm, the bulk of most logs: read one, skip thousands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

# From the percentage on; the label is what stands before it. The drawn part is missing where a page dropped it.
BAR = re.compile(
    rb"\d{1,3}%(?:\|[^|\r\n]{0,600}\|)? *(?P<done>\d+(?:\.\d+)?[kMGT]?)/(?P<total>\d+(?:\.\d+)?[kMGT]?)(?:i?B)?"
    rb" *\[(?P<state>[^\]\r\n]{0,400})\]?"
)
_RATE = re.compile(rb", *(\d+(?:\.\d+)?) *(it/s|s/it)")
_LONGEST_LABEL = 200


@dataclass(frozen=True)
class Bar:
    """One repaint of a bar. ``seconds``: a step's, as the bar averages them. ``losses``: it prints lr and loss."""

    label: str
    done: int
    total: int
    seconds: float | None
    losses: bool


def _whole(count: bytes) -> int:
    scale = {ord("k"): 10**3, ord("M"): 10**6, ord("G"): 10**9, ord("T"): 10**12}.get(count[-1])
    return int(float(count[:-1]) * scale) if scale else int(float(count))


def label_before(line: bytes, start: int, end: int) -> bytes:
    """What stands before a bar: the text since ``start``, the last bar's end or the line's, cut to a label's length."""
    return line[max(start, end - _LONGEST_LABEL) : end].rpartition(b"]")[2]


def read_bar(label: bytes, match: re.Match[bytes]) -> Bar:
    """The bar of a match of ``BAR`` and the label before it."""
    state = match["state"]
    rate = _RATE.search(state)
    seconds = None
    if rate and (value := float(rate[1])) > 0:
        seconds = value if rate[2] == b"s/it" else 1 / value
    losses = (b"loss" in state and b"lr" in state) or b"avr_loss" in state
    text = label.decode("utf-8", "replace").strip().rstrip(":").strip()
    return Bar(text, _whole(match["done"]), _whole(match["total"]), seconds, losses)


@lru_cache(maxsize=64)
def _repaints(label: bytes) -> re.Pattern[bytes]:
    bar = re.escape(label) + rb" *\d{1,3}%\|[^|\r\n]{0,600}\| *\d+/\d+ \[[^\]\r\n]{0,400}\] *"
    return re.compile(rb"(?:[\r\n ]*" + bar + rb"(?=[\r\n]|" + (re.escape(label) or b"$") + rb"))+")


def skip_repaints(text: bytes, label: bytes, end: int) -> int:
    """Where the unbroken run of repaints after ``end`` ends: whole bars with the very same label and nothing else."""
    run = _repaints(label.strip(b" ")).match(text, end)
    return run.end() if run else end
