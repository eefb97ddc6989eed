"""Settings that break AI Toolkit itself, or do not do what they say."""

from __future__ import annotations

from ..contracts import Job, Sentence


def traps(job: Job) -> tuple[Sentence, ...]:
    return ()
