"""Paths of job keys: ``train.batch_size``, ``datasets[0].resolution``, ``datasets[*]``, ``process[1].sample.width``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .. import configs
from .errors import wrong

ANY = "*"  # as a step: every entry of the list

_STEP = re.compile(r"(?:^|\.)([^.\[\]\s]+)|\[(\d{1,6}|\*)\]")
_PROCESS = re.compile(r"^(?:config\.)?process\[(\d{1,6}|\*)\](?:\.|$)")

Steps = tuple[Any, ...]
ABSENT = object()  # what ``follow`` finds where nothing is


def follow(data: Any, steps: Sequence[Any]) -> Any:
    """The value that steps lead to in parsed data, or ``ABSENT``."""
    for step in steps:
        inside = isinstance(data, Mapping) and step in data
        if not inside and not (isinstance(data, list) and isinstance(step, int) and step < len(data)):
            return ABSENT
        data = data[step]
    return data


def parse_path(path: str) -> tuple[int | str, Steps]:
    """The process (0 without a prefix) and the steps below it; ``ANY`` stands for ``[*]``.

    Raises JobError for what is no path.
    """
    text = path.strip()
    process: int | str = 0
    if prefix := _PROCESS.match(text):
        process = ANY if prefix[1] == ANY else int(prefix[1])
        text = text[prefix.end() :]
        if not text:
            return process, ()
    steps: list[Any] = []
    at = 0
    while at < len(text) and text[0] != ".":
        found = _STEP.match(text, at)
        if not found or (found[2] and not steps):
            break
        steps.append(found[1] if found[1] else ANY if found[2] == ANY else int(found[2]))
        at = found.end()
    if not steps or at < len(text):
        raise wrong("job.error.path", path=path)
    return process, tuple(steps)


def write_path(steps: Sequence[Any], process: int = 0) -> str:
    """The path of steps below a process, as the reports print it."""
    text = "".join(f"[{step}]" if isinstance(step, int) or step == ANY else f".{step}" for step in steps)
    return (f"process[{process}]" if process else "") + (text if process else text.removeprefix("."))


def locked(path: str, locks: Sequence[str]) -> bool:
    """Whether a lock forbids a change at ``path``: the key itself, one above it, or one that the change would replace.

    Two spellings of one setting (``network.rank``, ``network.linear``) are the same key. Raises JobError for a lock
    that is no path.
    """
    process, steps = _canonical(path)
    return any(
        _same(process, other_process) and all(_same(a, b) for a, b in zip(steps, other, strict=False))
        for other_process, other in [_canonical(lock) for lock in locks]
    )


def _same(a: Any, b: Any) -> bool:
    return a == b or ANY in (a, b)


def _canonical(path: str) -> tuple[int | str, Steps]:
    process, steps = parse_path(path)
    spellings = configs.load("job_keys")["other_spellings"]
    for old, new in spellings.items():
        old_steps = tuple(old.split("."))
        if steps[: len(old_steps)] == old_steps:
            return process, (*new.split("."), *steps[len(old_steps) :])
    return process, steps
