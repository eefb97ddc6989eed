"""How a node says that an input is wrong: which one, why, and the way out, in the reader's language."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class InputError(ValueError):
    """A wrong input: the sentence ``node.error.<key>`` of ``locales/<lang>/report.json`` and its values."""

    def __init__(self, key: str, **values: Any) -> None:
        super().__init__(key)
        self.key = key
        self.values = values

    def told(self, lang: str) -> str:
        """The sentence in this language."""
        from ..headroom.contracts import say
        from ..headroom.report.wording import words

        return words(say(f"node.error.{self.key}", **self.values), lang)

    def __str__(self) -> str:
        return self.told("en")


@contextmanager
def told_in(lang: str) -> Iterator[None]:
    """What is wrong with an input, a job or a budget, raised inside, comes out as a ValueError in this language."""
    from ..headroom.job import JobError
    from ..headroom.memory.budgeting import BudgetError
    from ..headroom.report.wording import words

    try:
        yield
    except InputError as error:
        raise ValueError(error.told(lang)) from None
    except (JobError, BudgetError) as error:
        raise ValueError(words(error.sentence, lang)) from None
