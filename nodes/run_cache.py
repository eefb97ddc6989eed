"""Whether ComfyUI may serve what a run's node put out before: only while it finished and nothing it read has changed.

A node is not told its linked inputs when ComfyUI asks for its fingerprint, so it cannot tell its own job. What is asked
instead: has any run of this server failed since, and is the work of those that finished still the same.
"""

from __future__ import annotations

from ..headroom.contracts import Job
from ..headroom.run.ai_toolkit import AiToolkit
from ..headroom.run.ai_toolkit_run import AiToolkitRun
from ..headroom.run.fingerprint import fingerprint

_MOST_SERVED = 8  # the files of each are looked at whenever a graph is queued


class _Age:
    number = 0


_served: dict[str, tuple[AiToolkit, Job, str | None]] = {}


def ended(engine: AiToolkit, job: Job, run: AiToolkitRun) -> None:
    """A node's run is over, and what it puts out is about to be cached."""
    if run.result and run.result.outcome == "finished":
        _served.pop(run.run.digest, None)
        _served[run.run.digest] = (engine, job, run.run.until)
        if len(_served) > _MOST_SERVED:
            del _served[next(iter(_served))]
            _Age.number += 1
    else:
        _Age.number += 1


def age() -> int:
    """A number that stays the same as long as everything that finished may be served again."""
    for digest, work in list(_served.items()):
        if not _same(digest, *work):
            del _served[digest]
            _Age.number += 1
    return _Age.number


def _same(digest: str, engine: AiToolkit, job: Job, until: str | None) -> bool:
    """Whether the job's files are as they were, and what a training made is still there; a check makes nothing."""
    made = until is not None or engine.store.finished(digest) is not None
    return made and fingerprint(job, engine.toolkit, until=until) == digest
