"""How a node says that an input is wrong: which one, why, and the way out, in the reader's language."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..headroom.contracts import say
from ..headroom.job import JobError
from ..headroom.report.wording import words


class InputError(ValueError):
    """A wrong input, from a sentence ``node.error.<key>`` and its values. ``str()`` of it is the English sentence."""

    def __init__(self, key: str, **values: Any) -> None:
        self.sentence = say(f"node.error.{key}", **values)
        super().__init__(words(self.sentence, "en"))


@contextmanager
def told_in(lang: str) -> Iterator[None]:
    """What is wrong with an input or a job, raised inside, comes out as a ValueError in this language."""
    try:
        yield
    except (InputError, JobError) as error:
        raise ValueError(words(error.sentence, lang)) from None
