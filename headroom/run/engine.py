"""One interface for whatever carries a job out: ``start(job, budget, until) -> run``.

Load check, training and preview sampling are the same call with another ``until``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol

from ..contracts import Budget, Event, Job, RunResult

Request = Literal["save", "sample", "stop"]
Until = Literal["load", "cache", "baseline_sample", "train"]


class EngineRun(Protocol):
    """A job that is being carried out, or was."""

    @property
    def folder(self) -> Path:
        """The run folder."""

    @property
    def events(self) -> Iterator[Event]:
        """Every event from the first, as they come, until the run is over."""

    @property
    def result(self) -> RunResult | None:
        """How it ended; ``None`` while it goes on."""

    def ask(self, request: Request) -> None:
        """Ask for a save, a preview, or a stop with a save; after the end this does nothing."""

    def read(self) -> list[Event]:
        """The events since the last call, at once; for one caller."""

    def cancel(self, save: bool = False) -> None:
        """End the run. Returns at once; everything it started is gone within five seconds.

        ``save``: it may first write a checkpoint, for which it has sixty seconds.
        """

    def wait(self, seconds: float | None = None) -> RunResult | None:
        """The result, once there is one, after at most that time."""


class Engine(Protocol):
    """Carries jobs out."""

    @property
    def name(self) -> str:
        """What the command line and the results call it."""

    def start(self, job: Job, budget: Budget | None = None, until: Until | None = None) -> EngineRun:
        """Begin to carry a job out to the end of a phase, ``None`` for to the end of all.

        Without a budget it may take what is free, less a reserve.
        """
