"""The engine that carries jobs out with AI Toolkit on this machine, in its own Python, under a supervisor."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..contracts import Budget, Change, Event, Job, Known, RunResult, Sentence, Steps
from ..diagnosis import diagnose, read_log
from ..job.stranger import Rules, vet
from ..memory import budgeting
from ..memory.nvml import GpuReading, read_gpus
from ..report.wording import words
from . import gpu_lock, supervised
from .checkpoints import set_aside_torn
from .engine import Request, Until
from .events import EventReader, follow
from .fingerprint import fingerprint
from .judging import judge
from .store import Hold, Resume, Run, Store, checkpoint_as, sentence

NAME = "ai-toolkit"
_PROBE = Path(__file__).resolve().parents[1] / "probe" / "__main__.py"
_POLL_SECONDS = 0.1
_SAVE_SECONDS = 60.0  # that a cancel which saves may take for it
# Of the Python and the allocator that we run in; they mean nothing to AI Toolkit's, or harm it.
_FOREIGN = (
    "PYTHONHOME",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
)
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
    of the same work is kept. ``gpus`` asks the driver what there is.
    """

    toolkit: Path
    python: Path
    rules: Rules | None
    store: Store = field(default_factory=Store)
    resume: Resume = "resume"
    force: bool = False
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
        """Begin to carry a job out; where the same work is kept finished, that run as it was.

        It is pinned to the budget's card, else to the first that may be used. Without a budget it may take what is free
        on that card, less a reserve.
        Raises JobRefused, BudgetError, GpuBusy, RunExists, RunInUse, and OSError where AI Toolkit or the run folder
        cannot be used; then nothing is left of it.
        """
        digest = fingerprint(job, self.toolkit, until=until)
        if not self.force and (kept := self.store.finished(digest)):
            return AiToolkitRun(kept, job)
        budget, warnings = self._granted(budget)
        job_name = str(job.data["config"]["name"])
        run = self.store.begin(job_name, digest, NAME, until, self.resume)
        hold = run.hold()
        try:
            environment = self._environment(budget.gpu)
            as_run, changes = self._vetted(job, run, environment)
            file = self.store.keep_job(run, as_run)
            trainer = supervised.start(
                self._command(file, run, budget, until),
                run.log,
                cwd=self.toolkit,
                env=environment,
                gpu=budget.gpu,
                locks=self.locks or gpu_lock.default_folder(),
            )
        except BaseException:
            hold.release()
            self.store.remove(run, checkpoints=True)  # it has made none; those of earlier runs stay with them
            raise
        return AiToolkitRun(run, as_run, trainer, hold, self.known, self.toolkit.absolute(), changes, budget, warnings)

    def _granted(self, asked: Budget | None) -> tuple[Budget, tuple[Sentence, ...]]:
        """The budget with its card, and what is to be said of it."""
        reading = self.gpus()
        if asked is None:
            return budgeting.default_budget(reading), ()
        gpu = budgeting.card(reading, asked.gpu)
        return replace(asked, gpu=gpu.uuid if gpu else asked.gpu), budgeting.short_of_room(asked, gpu)

    def _vetted(self, job: Job, run: Run, environment: Mapping[str, str]) -> tuple[Job, tuple[Change, ...]]:
        if self.rules is None:
            return job, ()
        vetted = vet(job, replace(self.rules, output=run.output), environment)
        if vetted.job is None:
            raise JobRefused(vetted.refusals)
        for torn in set_aside_torn(run.output):
            _log.warning("a checkpoint was not written to its end: %s", torn)
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

    def _environment(self, gpu: str | None) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        own |= {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
        if gpu:
            own |= {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        if self.hf_token:
            own["HF_TOKEN"] = self.hf_token
        return own


class AiToolkitRun:
    """A job in AI Toolkit's hands, or one that was."""

    def __init__(
        self,
        run: Run,
        job: Job,
        trainer: supervised.Supervised | None = None,
        hold: Hold | None = None,
        known: Known = Known(),  # noqa: B008
        base: Path = Path(),
        changes: tuple[Change, ...] = (),
        budget: Budget = Budget(),  # noqa: B008
        warnings: tuple[Sentence, ...] = (),
    ) -> None:
        self.run = run
        self.changes = changes  # what was changed in the job to make it safe
        self.budget = budget  # what it was granted
        self.warnings = warnings  # what was to be said before it began
        self.short_of: tuple[str, ...] = ()
        self._job, self._known, self._base = job, known, base
        self._trainer, self._hold = trainer, hold
        self._reader = EventReader(run.events)
        self._over = threading.Event()
        self._result: RunResult | None = None
        if trainer is None:
            self._result = _kept(run, job)
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
        if not self._trainer:
            return
        if not save:
            self._trainer.cancel()
            return
        self.ask("stop")
        late = threading.Timer(_SAVE_SECONDS, self._trainer.cancel)
        late.daemon = True
        late.start()

    def wait(self, seconds: float | None = None) -> RunResult | None:
        """The result, once there is one, after at most that time."""
        self._over.wait(seconds)
        return self._result

    def _watch(self) -> None:
        assert self._trainer is not None
        assert self._hold is not None
        reader, events = EventReader(self.run.events), list[Event]()
        try:
            over = False
            while not over:
                over = self._trainer.wait(_POLL_SECONDS)
                for event in reader.read():
                    events.append(event)
                    self._index(event)
            code = self._trainer.code
            known = Known(code, self._known.system, self._known.gpu_gib, self._known.host_ram_gib)
            judgement = judge(self.run, self._job, events, known, self._trainer.cancelled, self._base)
            result = judgement.result
            result = replace(result, warnings=(*self.warnings, *budgeting.above(self.budget, result.peaks)))
            self.short_of, self._result = judgement.short_of, result
            also: dict[str, Any] = {"short_of": list(self.short_of), "exit_code": code}
            if result.outcome == "finished" and result.checkpoint:
                also["checkpoint_as"] = checkpoint_as(Path(result.checkpoint))
            self.run.write_result(result, **also)
        except Exception:  # a full disk; the run itself is over, and whoever waits must learn of it
            _log.exception("the result of %s could not be kept", self.folder)
            if self._result is None:
                self._result = RunResult("failed", NAME, str(self.folder))
        finally:
            self._hold.release()
            self._over.set()

    def _index(self, event: Event) -> None:
        """A sample or a checkpoint into the run's index; one that cannot be kept there ends nothing."""
        path, step = event.keys.get("path"), event.keys.get("step")
        if event.event not in ("preview", "checkpoint") or not isinstance(path, str):
            return
        try:
            self.run.add("sample" if event.event == "preview" else "checkpoint", self._base / path, step)
        except OSError as error:
            _log.warning("the index of %s: %s", self.folder, error)


def _kept(run: Run, job: Job) -> RunResult:
    """The result of a run that finished, as it was written; its diagnosis, where it had one, from its log."""
    kept: Mapping[str, Any] = run.result() or {}
    peaks = {str(phase): (pair[0], pair[1]) for phase, pair in (kept.get("peaks") or {}).items()}
    diagnosis = diagnose(read_log(run.log), Known(exit_code=0), job) if kept.get("diagnosis") else None
    steps = Steps(**kept["steps"])
    warnings = tuple(map(sentence, kept.get("warnings") or ()))
    outcome, engine, checkpoint = kept["outcome"], kept["engine"], kept["checkpoint"]
    return RunResult(outcome, engine, str(run.folder), steps, checkpoint, peaks, diagnosis, warnings)
