"""What verbs share: an input that is wrong, and the one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..contracts import Sentence

FINISHED, NOT_FINISHED, WRONG_INPUT, CANCELLED = 0, 1, 2, 130


class InputError(Exception):
    """An input that is wrong: which one, why, and what to do, in one line."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(sentence.key)
        self.sentence = sentence


def peaks_as_json(peaks: Mapping[str, Sequence[float | None]]) -> dict[str, dict[str, float | None]]:
    """The highest (card, host) GiB of each phase, by name."""
    return {phase: {"vram_gib": card, "host_ram_gib": host} for phase, (card, host) in peaks.items()}


def print_json(answer: Any) -> None:
    """One JSON object on the standard output."""
    print(json.dumps(answer, ensure_ascii=False, indent=2, default=str))
