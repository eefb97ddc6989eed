"""Runs on disk. ``<runs>/<name>/`` holds the attempts at a job and the training folder that they share.

``run-0001/`` holds the job as run, ``log.txt``, ``events.jsonl``, ``index.jsonl`` (samples and checkpoints) and, once
it has ended, ``result.json``. AI Toolkit goes on from the newest checkpoint in ``output/``; a fresh start is a folder
``<name>@2``. Nothing of an earlier run is written to again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from .. import places
from ..contracts import Job, RunResult
from . import records
from .checkpoints import files_of
from .holding import Hold, RunInUse, held
from .names import another, folder_name

Resume = Literal["resume", "fresh", "fail"]
State = Literal["finished", "failed", "cancelled", "running", "unfinished"]

_RUN = re.compile(r"run-(\d{4,})")
_ABOUT, _RESULT, _INDEX, _LOCK = "run.json", "result.json", "index.jsonl", "lock"
_OUTPUT = "output"
_MOST_TRIES = 10000


class RunExists(Exception):
    """There are runs of that name already, and none was wanted; ``folder`` is theirs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.folder = folder


@dataclass(frozen=True)
class Run:
    """One attempt at a job: its folder, the job's name, and what is known of it from its start."""

    folder: Path
    name: str
    digest: str
    engine: str
    until: str | None
    begun: float  # seconds since 1970

    @property
    def log(self) -> Path:
        """The trainer's output."""
        return self.folder / "log.txt"

    @property
    def events(self) -> Path:
        """The events, one a line."""
        return self.folder / "events.jsonl"

    @property
    def output(self) -> Path:
        """The training folder that all attempts under this name share."""
        return self.folder.parent / _OUTPUT

    @property
    def job(self) -> Path:
        """The job as run."""
        yaml = self.folder / "job.yaml"
        return yaml if yaml.exists() else self.folder / "job.json"

    @property
    def state(self) -> State:
        """How it ended; ``unfinished`` where it ended without a result."""
        result = self.result()
        if result is not None:
            return result["outcome"]
        return "running" if held(self.supervisor) or held(self.folder / _LOCK) else "unfinished"

    @property
    def supervisor(self) -> Path:
        """What the supervisor of a run that outlives ComfyUI holds while it lives."""
        return self.folder / "supervisor"

    @property
    def requests(self) -> Path:
        """What that supervisor is asked, one a line."""
        return self.folder / "requests"

    @property
    def kept(self) -> Path:
        """What whoever picks such a run up has to know of it."""
        return self.folder / "kept.json"

    def hold(self) -> Hold:
        """Say that this run is looked after, until released or until this program ends.

        Raises RunInUse, also where its supervisor goes on without anybody.
        """
        hold = Hold(self.folder / _LOCK)
        if held(self.supervisor):
            hold.release()
            raise RunInUse(str(self.folder))
        return hold

    def result(self) -> dict[str, Any] | None:
        """The result as written, ``None`` before there is one."""
        found = records.read(self.folder / _RESULT)
        return found if found and found.get("outcome") in ("finished", "failed", "cancelled") else None

    def write_result(self, result: RunResult, **also: Any) -> None:
        """Write the result, whole or not at all. Raises FileExistsError where there is one."""
        if (self.folder / _RESULT).exists():
            raise FileExistsError(str(self.folder / _RESULT))
        records.write(self.folder / _RESULT, {**records.plain(result), **also})

    def add(self, kind: Literal["sample", "checkpoint"], path: Path, step: int | None) -> None:
        """Add a sample or a checkpoint to the index."""
        line = json.dumps({"kind": kind, "path": str(path), "step": step}, ensure_ascii=False).encode() + b"\n"
        with open(self.folder / _INDEX, "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line  # closes a line that was left torn
            file.write(line)

    def index(self) -> list[dict[str, Any]]:
        """The samples and checkpoints, oldest first, each once."""
        try:
            lines = (self.folder / _INDEX).read_bytes().split(b"\n")[:-1]
        except OSError:
            return []
        found = []
        for line in dict.fromkeys(lines):  # who picks a run up reads its events from the first, and adds all again
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and entry.get("kind") in ("sample", "checkpoint"):
                found.append(entry)
        return found


class Store:
    """The runs in a folder (``HEADROOM_RUNS``, else ``runs`` in the platform's user data)."""

    def __init__(self, folder: Path | None = None, settings: Path | None = None) -> None:
        named = places.setting("HEADROOM_RUNS", settings)
        chosen = folder or (Path(named).expanduser() if named else places.user_data() / "runs")
        self.folder = chosen.absolute()  # runs are written to by programs that run elsewhere

    def begin(self, name: str, digest: str, engine: str, until: str | None, resume: Resume = "resume") -> Run:
        """A new, empty run under that name.

        ``resume`` shares the training folder of the newest runs of that name, unless one of them finished: AI Toolkit
        would write over what it made. ``fresh`` begins another folder, ``fail`` raises RunExists where there are runs.
        Raises RunInUse where one to go on from still runs, OSError where the folder cannot be written.
        """
        group = self._group(name, resume)
        number = max((int(found[1]) for found in _runs_in(group).values()), default=0)
        for _ in range(_MOST_TRIES):
            number += 1
            run = Run(group / f"run-{number:04d}", name, digest, engine, until, time.time())
            try:
                run.folder.mkdir(parents=True)
            except FileExistsError:  # another program began one at the same time
                continue
            try:
                records.write(run.folder / _ABOUT, {"v": 1, **_about(run)})
                run.output.mkdir(exist_ok=True)
            except OSError:
                shutil.rmtree(run.folder, ignore_errors=True)
                with contextlib.suppress(OSError):  # others are in it
                    group.rmdir()
                raise
            return run
        raise FileExistsError(str(group))

    def keep_job(self, run: Run, job: Job) -> Path:
        """Write the job as run into its folder; AI Toolkit tells the syntax by the ending. Raises FileExistsError."""
        path = run.folder / f"job.{job.syntax}"
        with open(path, "x", encoding="utf-8", newline="") as file:
            file.write(job.text)
        return path

    def list(self) -> list[Run]:
        """All runs, oldest first; a folder that is none of ours is left out."""
        try:
            groups = sorted(path for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        except OSError:
            return []
        runs = (_run(folder) for group in groups for folder in _runs_in(group))
        return sorted((run for run in runs if run is not None), key=lambda run: (run.begun, run.folder))

    def show(self, name: str) -> Run:
        """A run by its folder, or as ``<name>/run-0001``. Raises KeyError for what is no run in this store."""
        folder = self.folder / name
        inside = folder.resolve().parent.parent == self.folder.resolve()
        run = _run(folder) if inside and _RUN.fullmatch(folder.resolve().name) else None
        if run is None:
            raise KeyError(name)
        return run

    def going_on(self, digest: str) -> Run | None:
        """The newest run of the same work that goes on with or without us, and can be picked up."""
        same = [run for run in self.list() if run.digest == digest and held(run.supervisor)]
        return same[-1] if same else None

    def finished(self, digest: str) -> Run | None:
        """The newest finished run of the same work whose checkpoint is still there as it was."""
        same = [run for run in self.list() if run.digest == digest and _kept(run)]
        return same[-1] if same else None

    def remove(self, run: Run, checkpoints: bool = False) -> None:
        """Remove a run's records; ``checkpoints`` also the shared output, once no other run is left beside it.

        Raises RunInUse where it still runs, KeyError where it is not of this store.
        """
        folder = self.show(str(run.folder)).folder
        hold = run.hold()
        hold.release()  # Windows removes no open file
        if checkpoints and set(_runs_in(folder.parent)) == {folder}:
            shutil.rmtree(folder.parent)
        else:
            shutil.rmtree(folder)

    def _group(self, name: str, resume: Resume) -> Path:
        base = self.folder / folder_name(name)
        groups = [base]
        while groups[-1].exists():
            groups.append(base.with_name(another(base.name, len(groups) + 1)))
        *there, new = groups
        if there and resume == "fail":
            raise RunExists(there[-1])
        if not there or resume == "fresh":
            return new
        earlier = [run for run in map(_run, _runs_in(there[-1])) if run is not None]
        for run in earlier:
            if run.state == "running":
                raise RunInUse(str(run.folder))
        made = any(run.state == "finished" and (run.result() or {}).get("checkpoint") for run in earlier)
        return new if made else there[-1]


def _about(run: Run) -> dict[str, Any]:
    return {each.name: getattr(run, each.name) for each in fields(Run) if each.name != "folder"}


def _runs_in(group: Path) -> dict[Path, re.Match[str]]:
    found = {}
    if group.is_dir():
        for path in group.iterdir():
            if (match := _RUN.fullmatch(path.name)) and path.is_dir():
                found[path] = match
    return found


def _run(folder: Path) -> Run | None:
    about = records.read(folder / _ABOUT)
    try:
        return Run(folder, **{each.name: about[each.name] for each in fields(Run)[1:]}) if about else None
    except KeyError:
        return None


def _kept(run: Run) -> bool:
    """Whether it finished and what it made is there as it was: not replaced by a later run in the same folder."""
    result = run.result()
    if result is None or result["outcome"] != "finished" or not result.get("checkpoint"):
        return False
    try:
        return checkpoint_as(Path(result["checkpoint"])) == result.get("checkpoint_as")
    except OSError:
        return False


def checkpoint_as(path: Path) -> list[int]:
    """By what a checkpoint is known again: size and time of its files, a pair's both. Raises OSError."""
    files = [file.stat() for file in files_of(path)]
    if not files:
        raise FileNotFoundError(str(path))
    return [sum(file.st_size for file in files), max(file.st_mtime_ns for file in files)]
