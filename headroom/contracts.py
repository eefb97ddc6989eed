"""The frozen values that pass between Headroom's parts. Data flows job -> diagnosis -> recovery -> job.

Sizes are GiB (2**30 bytes) wherever a name ends in ``_gib``; ``None`` always means "not known", never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Stage = Literal["startup", "load", "cache", "baseline_sample", "train", "sample", "save", "unknown"]
FailureClass = Literal["A", "B", "C", "D", "environment", "host", "other", "none"]
Cause = Literal[
    "vram",
    "other_process",
    "gpu_state",
    "host_ram",
    "pinned_memory",
    "shared_memory",
    "page_file",
    "spill",
    "disk",
    "version_regression",
    "not_memory",
    "interrupted",
    "none",
    "unknown",
]
Advice = Literal["change_job", "new_worker", "free_gpu", "fix_host", "update_or_rollback", "fix_error", "none"]
Media = Literal["image", "video"]
Strength = Literal["next", "safe"]
System = Literal["linux", "windows", "wsl", "macos"]
Language = Literal["en", "zh"]


@dataclass(frozen=True)
class Sentence:
    """Something to tell a person: a key of ``locales/<lang>/report.json`` and the values it is filled with.

    The core decides what to say; ``report.wording`` decides the words, in the reader's language.
    A value may itself be a ``Sentence``.
    """

    key: str
    values: tuple[tuple[str, Any], ...] = ()


def say(key: str, **values: Any) -> Sentence:
    """A ``Sentence`` from keyword values."""
    return Sentence(key, tuple(values.items()))


@dataclass(frozen=True)
class Job:
    """An AI Toolkit job: the text as its author wrote it, and what AI Toolkit reads in it.

    ``data`` is the parsed document with ``[name]`` and ``${ENV}`` left as written; treat it as read-only
    (edits go through ``job.edit``). ``origin`` names the source in messages: a file name, ``pasted`` or ``log``.
    """

    text: str
    syntax: Literal["yaml", "json"]
    origin: str = "pasted"
    data: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Change:
    """One edit to a job. ``old`` is what the job says now: ``None`` where the key is absent or no job is known."""

    lever: str
    path: str
    old: Any
    new: Any
    reason: Sentence
    price: Sentence
    where: Sentence


@dataclass(frozen=True)
class Known:
    """What is known of a failed run beside its log. ``exit_code`` follows the shell: 137 or -9 for SIGKILL."""

    exit_code: int | None = None
    system: System | None = None
    gpu_gib: float | None = None
    host_ram_gib: float | None = None


@dataclass(frozen=True)
class Evidence:
    """A line of the log (1-based) and what it means."""

    line: int
    text: str
    means: Sentence


@dataclass(frozen=True)
class Numbers:
    """The sizes an out-of-memory message prints, as printed; only what a cited line says."""

    requested_gib: float | None = None
    total_gib: float | None = None
    free_gib: float | None = None
    allocated_gib: float | None = None
    reserved_gib: float | None = None
    reserved_unallocated_gib: float | None = None
    this_process_gib: float | None = None
    other_processes_gib: float | None = None


@dataclass(frozen=True)
class Steps:
    """Training steps as AI Toolkit's own bar counts them; a skipped batch counts as done there."""

    done: int | None = None
    total: int | None = None
    skipped_batches: int = 0


@dataclass(frozen=True)
class Diagnosis:
    """What a run's evidence says. ``confidence``: of answers at 0.9 and above, 95 % are right.

    ``inside`` narrows the stage where frames or marks do: text, latents, denoise, decode, forward, backward, optimizer.
    """

    memory_failure: bool
    failure_class: FailureClass
    cause: Cause
    stage: Stage
    advice: Advice
    confidence: float
    summary: tuple[Sentence, ...]
    evidence: tuple[Evidence, ...] = ()
    numbers: Numbers = Numbers()
    steps: Steps = Steps()
    warnings: tuple[Sentence, ...] = ()
    rule: str = ""
    inside: str = ""


@dataclass(frozen=True)
class Correction:
    """A corrected job: ``job`` is ``None`` when none was given or wanted; ``notes`` say what was not done, and why."""

    job: Job | None
    changes: tuple[Change, ...] = ()
    notes: tuple[Sentence, ...] = ()


@dataclass(frozen=True)
class Budget:
    """What a run may take: a cap, not a wish. ``None``: no cap on that resource.

    ``gpu`` is the UUID of the card it speaks of. ``enforce`` off: nothing is capped, and what goes above it is told.
    """

    vram_gib: float | None = None
    host_ram_gib: float | None = None
    shm_gib: float | None = None
    disk_gib: float | None = None
    gpu: str | None = None
    enforce: bool = True


@dataclass(frozen=True)
class Event:
    """One line of a run's ``events.jsonl``: sequence number, seconds since the start, kind and its own keys."""

    seq: int
    t: float
    event: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    v: int = 1


@dataclass(frozen=True)
class RunResult:
    """How one attempt at a job ended. ``peaks``: phase -> (vram_gib, host_ram_gib).

    ``warnings`` say what is to be known of it beside that: a peak above the budget, a card with less free than that.
    """

    outcome: Literal["finished", "failed", "cancelled", "would_finish", "would_fail"]
    engine: str
    folder: str
    steps: Steps = Steps()
    checkpoint: str | None = None
    peaks: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None
    warnings: tuple[Sentence, ...] = ()
