"""A job's settings as they would be after changes, without writing its text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..contracts import Change, Job
from ..job import Settings
from ..job.paths import parse_path


def draft(job: Job, changes: Iterable[Change]) -> Settings:
    """The first process with the changes made. The job itself stays as it is."""
    data = _copy(job.data)
    process = data["config"]["process"][0]
    for change in changes:
        found = process
        *way, last = parse_path(change.path)[1]
        for step in way:
            if isinstance(found, dict) and found.get(step) is None:
                found[step] = {}
            found = found[step]
        found[last] = change.new
    return Settings(data, process, 0)


def _copy(value: Any) -> Any:
    """A copy in which nothing is shared, not even what a YAML alias shares."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
