"""What a setup tells while it goes on, and how it says that it could not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..contracts import Sentence, say
from ..report.wording import words

_COUNTED = re.compile(r"^Progress (\d+) of (\d+)$|\((\d+)/(\d+)\)")  # pip's bar as `raw`; git's counters

Step = Literal["source", "python", "torch", "packages", "check"]


@dataclass(frozen=True)
class Progress:
    """Where a setup is: its step (words: ``setup.step.<step>``), how much of it is done, and what a program just said.

    ``done`` of ``total`` is in units of its own (bytes, objects), ``None`` where nobody can tell.
    """

    step: Step
    done: int | None = None
    total: int | None = None
    detail: str = ""


Tell = Callable[[Progress], None]
Stop = Callable[[], bool]


class SetupError(Exception):
    """AI Toolkit could not be set up; ``sentence`` says why, and the way out. What was done so far is kept."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(words(sentence))
        self.sentence = sentence


class SetupStopped(SetupError):
    """Whoever asked for the setup stopped it; the next one goes on from there."""

    def __init__(self) -> None:
        super().__init__(say("setup.stopped"))


def counted(step: Step, line: str) -> Progress:
    """What a line of a program means: how much of how much where it counts, else its words."""
    if found := _COUNTED.search(line):
        done, total = (int(number) for number in found.groups() if number is not None)
        return Progress(step, done, total)
    return Progress(step, detail=line)
