"""What is found on this machine: AI Toolkit and its Python, GPUs and who uses them, RAM, /dev/shm, disks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import places
from .contracts import Sentence, say
from .memory.machine import Machine, Space, read_machine, space_at
from .memory.nvml import Gpu, GpuReading, read_gpus
from .report.wording import words
from .run.locate import LocateError, Toolkit, ToolkitPython, check_python, find_python, find_toolkit

SMALL_SHM_GIB = 1.0  # a container has 0.06 unless asked for more; a batch of video frames is larger


@dataclass(frozen=True)
class Disk:
    """A disk that a run fills, by what lies there (``runs``, ``models``, ``ai_toolkit``); ``space`` if it was read."""

    holds: str
    path: Path
    space: Space | None


@dataclass(frozen=True)
class Checkup:
    """All that was found. ``notes`` say what was not, and the way out."""

    toolkit: Toolkit | None
    python: ToolkitPython | None
    gpus: GpuReading
    machine: Machine
    disks: tuple[Disk, ...]
    notes: tuple[Sentence, ...]


def examine(settings: Path | None = None, runs: Path | None = None) -> Checkup:
    """Look at this machine: settings from the environment and the given file, runs kept in the given folder.

    Takes seconds, since AI Toolkit's Python is asked to import torch. Never raises for what is not there.
    """
    notes: list[Sentence] = []
    toolkit = python = None
    try:
        toolkit = find_toolkit(settings)
        python = check_python(find_python(toolkit, settings), toolkit)
    except LocateError as error:
        notes.append(error.sentence)
    gpus, machine = read_gpus(), read_machine()
    if python and python.cuda is None and gpus.gpus:
        notes.append(say("doctor.torch_without_cuda", torch=python.torch, python=str(python.path)))
    notes += [*gpus.notes, *machine.notes]
    if machine.shm and machine.shm.total_gib < SMALL_SHM_GIB:
        notes.append(say("doctor.shm_small", total=machine.shm.total_gib))
    disks = [Disk("runs", runs or _runs(settings), None), Disk("models", places.model_cache(), None)]
    if toolkit:
        disks.append(Disk("ai_toolkit", toolkit.folder, None))
    read = tuple(Disk(disk.holds, disk.path, space_at(disk.path)) for disk in disks)
    notes += [say("doctor.disk_unreadable", path=str(disk.path)) for disk in read if disk.space is None]
    return Checkup(toolkit, python, gpus, machine, read, tuple(notes))


def _runs(settings: Path | None) -> Path:
    named = places.setting("HEADROOM_RUNS", settings)
    return Path(named).expanduser() if named else places.user_data() / "runs"


def as_json(checkup: Checkup, lang: str) -> dict[str, Any]:
    """The checkup as ``doctor --json`` prints it; ``null`` is not known or not there, and ``notes`` say which."""
    toolkit, python, machine = checkup.toolkit, checkup.python, checkup.machine
    return {
        "ai_toolkit": toolkit and asdict(toolkit) | {"folder": str(toolkit.folder)},
        "python": python and asdict(python) | {"path": str(python.path)},
        "driver": checkup.gpus.driver,
        "gpus": [asdict(gpu) | {"unshown_gib": gpu.unshown_gib} for gpu in checkup.gpus.gpus],
        "system": machine.system,
        "ram": machine.ram and asdict(machine.ram) | {"limited": machine.ram_limited},
        "shm": machine.shm and asdict(machine.shm),
        "disks": [
            {"holds": disk.holds, "path": str(disk.path)} | (asdict(disk.space) if disk.space else {})
            for disk in checkup.disks
        ],
        "notes": [words(note, lang) for note in checkup.notes],
    }


def as_text(checkup: Checkup, lang: str) -> str:
    """The checkup for people, a line each, with what is missing at the end."""
    lines = [words(sentence, lang) for sentence in _sentences(checkup)]
    notes = [f"- {words(note, lang)}" for note in checkup.notes]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _sentences(checkup: Checkup) -> Iterator[Sentence]:
    unknown = say("doctor.unknown")
    toolkit, python, machine = checkup.toolkit, checkup.python, checkup.machine
    if toolkit:
        version, commit = toolkit.version or unknown, toolkit.commit or unknown
        yield say("doctor.ai_toolkit", version=version, commit=commit, folder=str(toolkit.folder))
    else:
        yield say("doctor.no_ai_toolkit")
    if python:
        cuda = python.cuda or say("doctor.no_cuda")
        yield say("doctor.python", version=python.version, torch=python.torch, cuda=cuda, path=str(python.path))
    elif toolkit:
        yield say("doctor.no_python")
    yield say("doctor.driver", version=checkup.gpus.driver or unknown)
    for gpu in checkup.gpus.gpus:
        yield from _gpu(gpu)
    if checkup.gpus.driver and not checkup.gpus.gpus:
        yield say("doctor.no_gpu")
    yield say("doctor.system", system=machine.system or unknown)
    if machine.ram:
        key = "doctor.ram.limited" if machine.ram_limited else "doctor.ram"
        yield say(key, total=machine.ram.total_gib, free=machine.ram.free_gib)
    else:
        yield say("doctor.ram.unknown")
    if machine.shm:
        yield say("doctor.shm", total=machine.shm.total_gib, free=machine.shm.free_gib)
    for disk in checkup.disks:
        if disk.space:
            space = {"total": disk.space.total_gib, "free": disk.space.free_gib}
            yield say(f"doctor.disk.{disk.holds}", path=str(disk.path), **space)


def _gpu(gpu: Gpu) -> Iterator[Sentence]:
    unknown = say("doctor.unknown")
    total, free = (unknown if size is None else size for size in (gpu.total_gib, gpu.free_gib))
    yield say("doctor.gpu", index=gpu.index, name=gpu.name, total=total, free=free, uuid=gpu.uuid)
    for process in gpu.processes or ():
        used = unknown if process.used_gib is None else process.used_gib
        yield say("doctor.gpu.process", name=process.name or unknown, pid=process.pid, used=used)
