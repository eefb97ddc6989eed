"""The one error a wrong job, path or lock gives: it names the key, the line and the way out."""

from __future__ import annotations

from typing import Any

from ..contracts import Sentence, say
from ..report.wording import words


class JobError(ValueError):
    """A job, a path or a lock that cannot be used. ``str()`` of it is the sentence in English.

    ``line`` is 1-based, ``key`` the path of the key it is about; ``None`` where there is none. ``reason`` says which
    error it is: the sentence's key, without the words that name the line.
    """

    def __init__(self, sentence: Sentence, line: int | None = None, key: str | None = None, reason: str = "") -> None:
        super().__init__(words(sentence, "en"))
        self.sentence = sentence
        self.reason = reason or sentence.key
        self.line = line
        self.key = key


def wrong(key: str, line: int | None = None, path: str | None = None, **values: Any) -> JobError:
    """A ``JobError`` from a sentence key and its values; the line is put in front, the path is a value too."""
    if path is not None:
        values["path"] = path
    sentence = say(key, **values)
    if line is not None:
        sentence = say("job.error.line", line=line, what=sentence)
    return JobError(sentence, line, path, key)
