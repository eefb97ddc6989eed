"""The logs and jobs a node can name: files of the input folder, AI Toolkit's job folders, runs, and our samples."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from .errors import InputError
from .places import Places

Kind = Literal["log", "job"]

NO_LOG = "(paste or choose a log)"
NO_JOB = "(paste or choose a job)"
PRINTED_JOB = "(the job printed in the log)"
STRENGTHS = ("next", "safe")
_ENDINGS = {"log": (".log", ".txt", ".out"), "job": (".yaml", ".yml", ".json", ".jsonc")}
_MOST = 200


def _roots(kind: Kind, places: Places) -> dict[str, Path]:
    """What a name may begin with, and the folder it then lies in. Folders with a run's log count as logs."""
    roots = {"example: ": places.samples}
    if kind == "log":
        roots["run: "] = places.runs
        if places.ai_toolkit_output:
            roots["AI Toolkit: "] = places.ai_toolkit_output
    return roots


def names(kind: Kind, places: Places) -> list[str]:
    """What a node offers, the newest of each place first: the input folder, then the folders of runs, then samples."""
    found = [path.name for path in _newest(places.input, kind)]
    found += [f"{places.pasted.name}/{path.name}" for path in _newest(places.pasted, kind)]
    for prefix, root in reversed(_roots(kind, places).items()):
        paths = _newest(root, kind) if root == places.samples else _job_folders(root)
        found += [prefix + path.relative_to(root).as_posix() for path in paths]
    return found


def _newest(folder: Path, kind: Kind) -> list[Path]:
    return _by_age(path for path in _entries(folder) if path.name.lower().endswith(_ENDINGS[kind]) and path.is_file())


def _job_folders(folder: Path) -> list[Path]:
    """AI Toolkit's UI keeps a job in a folder, Headroom the attempts at a job in folders inside one."""
    inside = (path for entry in _entries(folder) for path in (entry, *_entries(entry)))
    return _by_age(path for path in inside if (path / "log.txt").is_file())


def _entries(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if not entry.name.startswith(".")]
    except OSError:
        return []


def _by_age(paths: Iterable[Path]) -> list[Path]:
    def age(path: Path) -> float:
        try:
            return -path.stat().st_mtime
        except OSError:
            return 0.0

    return sorted(paths, key=age)[:_MOST]


def find(name: str, kind: Kind, places: Places) -> Path:
    """The file or run folder a name stands for.

    Raises InputError where it does not exist, or where the name or a link leads out of its place.
    """
    root, rest = places.input, name
    for prefix, folder in _roots(kind, places).items():
        if name.startswith(prefix):
            root, rest = folder, name.removeprefix(prefix)
    try:
        path = (root / rest).resolve(strict=True)
        read = [path, *(each.resolve() for each in _files_of(path))]
        inside = all(each.is_relative_to(root.resolve()) for each in read)
    except (OSError, ValueError, RuntimeError):
        path, inside = root, False
    if not rest or path == root.resolve() or not inside:
        raise InputError(f"no_such_{kind}", name=name[:200])
    return path


def _files_of(path: Path) -> list[Path]:
    """What is read of a name's place: the file itself, or the log and the job in a run's folder."""
    from ..headroom.diagnosis.log_text import JOBS_BESIDE_LOGS

    return [path / "log.txt", *(path / name for name in JOBS_BESIDE_LOGS)] if path.is_dir() else [path]


def fingerprint(name: str | None, kind: Kind, places: Places) -> str:
    """Changes when the file behind a name does: its size and time, not its content.

    ``None`` is a name that comes over a wire and is not known yet: it always counts as changed.
    """
    if name is None:
        return str(time.monotonic_ns())
    try:
        path = find(name, kind, places)
        states = [each.stat() for each in _files_of(path) if each.exists()]
        return repr([name, *((state.st_size, state.st_mtime_ns) for state in states)])
    except (InputError, OSError):
        return repr([name])
