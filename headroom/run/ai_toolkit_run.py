"""A job in AI Toolkit's hands: followed, asked, ended, and judged once it is over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..contracts import Budget, Change, Event, Job, Known, RunResult, Sentence, Steps
from ..diagnosis import diagnose, read_log
from ..memory import budgeting
from . import records
from .engine import Request
from .events import EventReader, follow
from .holding import Hold, RunInUse
from .judging import judge
from .store import Run, checkpoint_as
from .supervised import Trainer

_POLL_SECONDS = 0.1
_SAVE_SECONDS = 60  # that a cancel which saves may take for it
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Start:
    """What its judge has to know of a run from its start: the folder that it runs in, what it was granted and told."""

    base: Path
    known: Known
    budget: Budget
    warnings: tuple[Sentence, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**records.plain(self), "base": str(self.base)}


_UNKNOWN = Start(Path(), Known(), Budget(), ())


def start_kept(about: Mapping[str, Any]) -> Start:
    """A start from its JSON."""
    warnings = tuple(map(records.sentence, about["warnings"]))
    return Start(Path(about["base"]), Known(**about["known"]), Budget(**about["budget"]), warnings)


class AiToolkitRun:
    """A run of AI Toolkit that goes on, or one that has ended: then without a trainer.

    ``hold`` is the run's own; without one the run outlives us, and is held only to be judged.
    """

    def __init__(
        self,
        run: Run,
        job: Job,
        trainer: Trainer | None = None,
        start: Start = _UNKNOWN,
        hold: Hold | None = None,
        changes: tuple[Change, ...] = (),
    ) -> None:
        self.run = run
        self.changes = changes  # what was changed in the job to make it safe
        self.budget = start.budget  # what it was granted
        self.warnings = start.warnings  # what was to be said before it began
        self.short_of: tuple[str, ...] = ()
        self._job, self._start = job, start
        self._trainer, self._hold = trainer, hold
        self._reader = EventReader(run.events)
        self._over = threading.Event()
        self._result: RunResult | None = None
        if trainer is None:
            self._take_kept()
            self._over.set()
        else:
            threading.Thread(target=self._watch, name=f"headroom {run.folder.name}", daemon=True).start()

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.run.folder

    @property
    def events(self) -> Iterator[Event]:
        """Every event from the first, as they come, until the run is over."""
        return follow(self.run.events, self._over.is_set, _POLL_SECONDS)

    def read(self) -> list[Event]:
        """The events since the last call, at once; for one caller."""
        return self._reader.read()

    @property
    def result(self) -> RunResult | None:
        """How it ended; ``None`` while it goes on."""
        return self._result

    def ask(self, request: Request) -> None:
        """Ask for a save, a preview, or a stop with a save; after the end this does nothing."""
        if self._trainer:
            self._trainer.ask(request)

    def cancel(self, save: bool = False) -> None:
        """End the run. Returns at once; everything it started is gone within five seconds.

        ``save``: it may first write a checkpoint, for which it has sixty seconds.
        """
        if self._trainer:
            self._trainer.cancel(_SAVE_SECONDS if save else 0)

    def wait(self, seconds: float | None = None) -> RunResult | None:
        """The result, once there is one, after at most that time."""
        self._over.wait(seconds)
        return self._result

    def _watch(self) -> None:
        assert self._trainer is not None
        reader, events = EventReader(self.run.events), list[Event]()
        try:
            over = False
            while not over:
                over = self._trainer.wait(_POLL_SECONDS)
                for event in reader.read():
                    events.append(event)
                    self._index(event)
            self._hold = self._hold or self._held_to_judge()
            if self.run.result():  # another that followed it was first
                self._take_kept()
            else:
                self._judge(self._trainer, events)
        except Exception:  # a full disk; the run itself is over, and whoever waits must learn of it
            _log.exception("the result of %s could not be kept", self.folder)
            if self._result is None:
                self._result = RunResult("failed", self.run.engine, str(self.folder))
        finally:
            if self._hold:
                self._hold.release()
            self._over.set()

    def _judge(self, trainer: Trainer, events: list[Event]) -> None:
        known = replace(self._start.known, exit_code=trainer.code)
        judgement = judge(self.run, self._job, events, known, trainer.cancelled, self._start.base)
        warnings = (*self.warnings, *budgeting.above(self.budget, judgement.result.peaks))
        result = replace(judgement.result, warnings=warnings)
        self.short_of, self._result = judgement.short_of, result
        also: dict[str, Any] = {"short_of": list(self.short_of), "exit_code": trainer.code}
        if result.outcome == "finished" and result.checkpoint:
            also["checkpoint_as"] = checkpoint_as(Path(result.checkpoint))
        self.run.write_result(result, **also)

    def _take_kept(self) -> None:
        self._result = _kept(self.run, self._job)
        self.short_of = tuple((self.run.result() or {}).get("short_of") or ())

    def _held_to_judge(self) -> Hold:
        while True:
            try:
                return self.run.hold()
            except RunInUse:  # another judges it
                time.sleep(_POLL_SECONDS)

    def _index(self, event: Event) -> None:
        """A sample or a checkpoint into the run's index; one that cannot be kept there ends nothing."""
        path, step = event.keys.get("path"), event.keys.get("step")
        if event.event not in ("preview", "checkpoint") or not isinstance(path, str):
            return
        try:
            self.run.add("sample" if event.event == "preview" else "checkpoint", self._start.base / path, step)
        except OSError as error:
            _log.warning("the index of %s: %s", self.folder, error)


def _kept(run: Run, job: Job) -> RunResult:
    """The result of a run that has ended, as it was written; its diagnosis, where it had one, from its log."""
    kept: Mapping[str, Any] = run.result() or {}
    peaks = {str(phase): (pair[0], pair[1]) for phase, pair in (kept.get("peaks") or {}).items()}
    known = Known(exit_code=kept.get("exit_code", 0))
    diagnosis = diagnose(read_log(run.log), known, job) if kept.get("diagnosis") else None
    steps = Steps(**kept["steps"])
    warnings = tuple(map(records.sentence, kept.get("warnings") or ()))
    outcome, engine, checkpoint = kept["outcome"], kept["engine"], kept["checkpoint"]
    return RunResult(outcome, engine, str(run.folder), steps, checkpoint, peaks, diagnosis, warnings)
