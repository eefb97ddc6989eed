"""The engine that carries jobs out with AI Toolkit on this machine, in its own Python, under a supervisor."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ..contracts import Budget, Change, Job, Known, Sentence
from ..job import JobError, read_job_file
from ..job.stranger import Rules, vet
from ..memory import budgeting
from ..memory.machine import which_system
from ..memory.nvml import Gpu, GpuReading, read_gpus
from ..report.wording import words
from . import gpu_lock, kept, records, supervised
from .ai_toolkit_run import AiToolkitRun, Start, start_kept
from .checkpoints import set_aside_torn
from .downloads import DiskTooSmall, forecast
from .engine import Until
from .fingerprint import fingerprint
from .store import Resume, Run, Store
from .surroundings import surroundings

NAME = "ai-toolkit"
_PROBE = Path(__file__).resolve().parents[1] / "probe" / "__main__.py"
_log = logging.getLogger(__name__)


class JobRefused(Exception):
    """A stranger's job that the rules do not let run; ``sentences`` say what stands against it."""

    def __init__(self, sentences: tuple[Sentence, ...]) -> None:
        super().__init__(" ".join(words(each) for each in sentences))
        self.sentences = sentences


@dataclass(frozen=True)
class AiToolkit:
    """AI Toolkit here: its folder and Python, and how it is to run.

    ``rules`` hold for a stranger's job, which is run below the run store whatever it says (their ``output`` is set to
    each run's own); ``None`` runs the user's own job as it is. ``force`` carries the job out again where a finished run
    of the same work is kept. ``keep``: a run goes on without us, and the next start of the same work picks it up.
    ``gpus`` asks the driver what there is.
    """

    toolkit: Path
    python: Path
    rules: Rules | None
    store: Store = field(default_factory=Store)
    resume: Resume = "resume"
    force: bool = False
    keep: bool = False
    largest_bucket: Literal["stop", "continue", "off"] | None = None
    hf_token: str | None = field(default=None, repr=False)
    known: Known = field(default_factory=Known)
    locks: Path | None = None
    probe: Path = _PROBE
    gpus: Callable[[], GpuReading] = read_gpus

    @property
    def name(self) -> str:
        """What the command line and the results call it."""
        return NAME

    def start(self, job: Job, budget: Budget | None = None, until: Until | None = None) -> AiToolkitRun:
        """Begin to carry a job out; where the same work goes on or is kept finished, that run.

        It is pinned to the budget's card, else to the first that may be used. Without a budget it may take what is free
        on that card, less a reserve.
        Raises JobRefused, BudgetError, DiskTooSmall, GpuBusy, RunExists, RunInUse, and OSError where AI Toolkit or the
        run folder cannot be used; then nothing is left of it.
        """
        self._refuse(job)  # before any file that it names is touched
        digest = fingerprint(job, self.toolkit, until=until)
        settle(self.store)
        if going_on := self.store.going_on(digest):
            return self._picked_up(going_on, job)
        if not self.force and (finished := self.store.finished(digest)):
            return AiToolkitRun(finished, job)
        budget, card, warnings = self._granted(budget)
        downloads = forecast(job, self.toolkit, self.hf_token)
        if downloads.refusal:
            raise DiskTooSmall(downloads.refusal)
        run = self.store.begin(str(job.data["config"]["name"]), digest, NAME, until, self.resume)
        hold = run.hold()
        try:
            environment = surroundings(budget.gpu, card, which_system(), self.hf_token)
            as_run, changes = self._vetted(job, run, environment)
            if self.rules:
                _set_aside_torn(run)
            start = Start(self.toolkit.absolute(), self.known, budget, (*warnings, *downloads.warnings))
            command = self._command(self.store.keep_job(run, as_run), run, budget, until)
            trainer = self._started(command, run, start, environment)
        except BaseException:
            hold.release()
            self.store.remove(run, checkpoints=True)  # it has made none; those of earlier runs stay with them
            raise
        if self.keep:
            hold.release()
        return AiToolkitRun(run, as_run, trainer, start, None if self.keep else hold, changes)

    def _started(self, command: list[str], run: Run, start: Start, environment: dict[str, str]) -> supervised.Trainer:
        gpu, locks = start.budget.gpu, self.locks or gpu_lock.default_folder()
        if self.keep:
            about = start.as_dict()
            return kept.start(command, run, about, cwd=self.toolkit, env=environment, gpu=gpu, locks=locks)
        return supervised.start(command, run.log, cwd=self.toolkit, env=environment, gpu=gpu, locks=locks)

    def _picked_up(self, run: Run, job: Job) -> AiToolkitRun:
        """A run that goes on without us: its job as it began, its events from the first."""
        _, changes = self._vetted(job, run, surroundings(None, None, None, self.hf_token))
        return _kept_run(run, changes)

    def _granted(self, asked: Budget | None) -> tuple[Budget, Gpu | None, tuple[Sentence, ...]]:
        """The budget with its card, and what is to be said of it."""
        reading = self.gpus()
        if asked is None:
            granted = budgeting.default_budget(reading)
            return granted, budgeting.card(reading, granted.gpu), ()
        card = budgeting.card(reading, asked.gpu)
        return replace(asked, gpu=card.uuid if card else asked.gpu), card, budgeting.short_of_room(asked, card)

    def _refuse(self, job: Job) -> None:
        if self.rules and (refusals := vet(job, self.rules, os.environ).refusals):
            raise JobRefused(refusals)

    def _vetted(self, job: Job, run: Run, environment: Mapping[str, str]) -> tuple[Job, tuple[Change, ...]]:
        if self.rules is None:
            return job, ()
        vetted = vet(job, replace(self.rules, output=run.output), environment)
        if vetted.job is None:
            raise JobRefused(vetted.refusals)
        return vetted.job, vetted.changes

    def _command(self, job: Path, run: Run, budget: Budget, until: Until | None) -> list[str]:
        # In AI Toolkit's folder a relative path would name something else; a bare name is looked up as it is.
        python = self.python.absolute() if self.python.exists() else self.python
        command = [str(python), str(self.probe.absolute()), "--control", "0"]
        for option, value in (
            ("--toolkit", self.toolkit.absolute()),
            ("--job", job),
            ("--events", run.events),
            ("--until", until),
            ("--vram-gib", budget.vram_gib if budget.enforce else None),
            ("--host-ram-gib", budget.host_ram_gib if budget.enforce else None),
            ("--largest-bucket", self.largest_bucket),
        ):
            if value is not None:
                command += [option, str(value)]
        return command


def settle(store: Store) -> None:
    """Judge the runs that went on without us and have ended meanwhile, and keep their results."""
    for run in store.list():
        if run.engine != NAME or not run.kept.exists() or run.state != "unfinished":
            continue
        try:
            _kept_run(run).wait()
        except (OSError, JobError, KeyError, TypeError) as error:  # its records are damaged
            _log.warning("%s cannot be judged: %s", run.folder, error)


def _kept_run(run: Run, changes: tuple[Change, ...] = ()) -> AiToolkitRun:
    start = start_kept(records.read(run.kept) or {})
    return AiToolkitRun(run, read_job_file(run.job), kept.Kept(run), start, changes=changes)


def _set_aside_torn(run: Run) -> None:
    for torn in set_aside_torn(run.output):
        _log.warning("a checkpoint was not written to its end: %s", torn)
