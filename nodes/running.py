"""A run inside ComfyUI's queue: memory is made free for it, it is followed, and an interrupt ends it.

Only the thread that executes nodes may ask for an interrupt or move a progress bar (comfy/model_management.py clears
the flag for whoever asks), so all that may take long waits in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import comfy.model_management as mm
import comfy.utils

from ..headroom.contracts import Budget, Job, Sentence, say
from ..headroom.job.stranger import vet
from ..headroom.memory.budgeting import BudgetError
from ..headroom.memory.freeing import wait_for_free
from ..headroom.report.wording import words
from ..headroom.run.ai_toolkit import AiToolkit, JobRefused
from ..headroom.run.ai_toolkit_run import AiToolkitRun
from ..headroom.run.engine import Until
from ..headroom.run.fingerprint import fingerprint
from ..headroom.run.gpu_lock import GpuBusy
from ..headroom.run.here import engine_here
from ..headroom.run.locate import LocateError
from ..headroom.run.store import Resume, RunExists, RunInUse, Store
from . import run_cache
from .places import places, settings_file
from .run_status import Status
from .stranger import rules

LargestBucket = Literal["stop", "continue", "off"]
Value = TypeVar("Value")

_POLL_SECONDS = 0.1
_waiting = ThreadPoolExecutor(1, "headroom waits")
_ending: list[AiToolkitRun] = []


class RunFailed(Exception):
    """A run could not begin, or did not finish; the text says why and the way out. Never torch's own memory error."""


@dataclass(frozen=True)
class Order:
    """What a node wants carried out, and how."""

    job: Job
    budget: Budget | None = None
    until: Until | None = None
    resume: Resume = "resume"
    force: bool = False
    largest_bucket: LargestBucket = "stop"
    save_on_cancel: bool = False


def carry_out(order: Order, status: Status, node: str, lang: str) -> tuple[AiToolkitRun, bool]:
    """Begin a run and follow it to its end, however it ends; or find it, and say so, where the same work is finished.

    Raises RunFailed where it cannot begin, and ComfyUI's InterruptProcessingException as soon as somebody interrupts;
    the run is then being ended.
    """
    with _told_in(lang):
        engine = engine_here(
            settings_file(),
            Store(places().runs),
            rules,
            resume=order.resume,
            force=order.force,
            largest_bucket=order.largest_bucket,
        )
        kept = _awaited(lambda: _kept(engine, order))
        if not kept:
            _make_room(order, status)
        status.say("starting")
        begun = _waiting.submit(engine.start, order.job, order.budget, order.until)
        try:
            run = _polled(begun)
            status.begin(run.run, run.budget.vram_gib if run.budget.enforce else None)
            _follow(run, status, node)
        except mm.InterruptProcessingException:
            begun.add_done_callback(lambda done: _end(done, order.save_on_cancel))
            raise
    run_cache.ended(engine, order.job, run)
    return run, kept


def _kept(engine: AiToolkit, order: Order) -> bool:
    """Whether the same work is there finished. Raises JobRefused, before any file that the job names is touched."""
    assert engine.rules is not None
    refusals = vet(order.job, engine.rules).refusals
    if refusals:
        raise JobRefused(refusals)
    digest = fingerprint(order.job, engine.toolkit, until=order.until)
    return not order.force and engine.store.finished(digest) is not None


def _make_room(order: Order, status: Status) -> None:
    """Wait for a run that is being ended, then let go of ComfyUI's models and wait for their memory."""
    if any(run.result is None for run in _ending):
        status.say("ending_earlier")
        _awaited(lambda: [run.wait() for run in _ending])
    _ending.clear()
    status.say("freeing")
    mm.unload_all_models()
    mm.soft_empty_cache()
    asked = order.budget or Budget()
    _awaited(lambda: wait_for_free(asked.gpu, asked.vram_gib))


def _follow(run: AiToolkitRun, status: Status, node: str) -> None:
    bar = None
    over = False
    while not over:
        mm.throw_exception_if_processing_interrupted()
        over = run.wait(_POLL_SECONDS) is not None
        status.hear(run.read())
        if status.step:
            bar = bar or comfy.utils.ProgressBar(status.step[1], node_id=node)
            bar.update_absolute(*status.step)
    run.wait()  # until the result is written, too
    status.hear(run.read())


def _end(begun: Future[AiToolkitRun], save: bool) -> None:
    """End a run that nobody waits for any more, once it has begun."""
    if begun.exception() is None:
        run = begun.result()
        run.cancel(save)
        _ending.append(run)


def _awaited(call: Callable[[], Value]) -> Value:
    """What the call returns, from another thread; raises what it raises, or the interrupt."""
    return _polled(_waiting.submit(call))


def _polled(future: Future[Value]) -> Value:
    while True:
        mm.throw_exception_if_processing_interrupted()
        try:
            return future.result(_POLL_SECONDS)
        except NotYet:
            if future.done():  # it was the call that timed out
                raise


@contextmanager
def _told_in(lang: str) -> Iterator[None]:
    """What keeps a run from beginning comes out as RunFailed in this language."""

    def failed(key: str, **values: Any) -> RunFailed:
        return RunFailed(words(say(f"node.run.{key}", **values), lang))

    try:
        yield
    except LocateError as error:
        raise failed("no_ai_toolkit", why=error.sentence) from None
    except BudgetError as error:
        raise RunFailed(words(error.sentence, lang)) from None
    except JobRefused as error:
        raise failed("refused", why=_lines(error.sentences, lang)) from None
    except GpuBusy as error:
        holder = error.holder
        raise failed("gpu_busy", pid=holder.pid if holder else "?") from None
    except RunInUse as error:
        raise failed("in_use", folder=str(error)) from None
    except RunExists as error:
        raise failed("exists", folder=str(error.folder)) from None
    except OSError as error:
        raise failed("cannot_start", why=error.strerror or str(error), file=error.filename or "-") from None


def _lines(sentences: tuple[Sentence, ...], lang: str) -> str:
    return "\n".join(words(each, lang) for each in sentences)
