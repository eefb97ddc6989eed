"""Bring AI Toolkit here: its files at a pinned commit, a Python of its own, torch and its packages.

All of it lies in the tools place. The environment is made where it stays; AI Toolkit's files come last, and of those
``run.py`` at the very end: a setup that was interrupted is never taken for an AI Toolkit, and the next goes on from it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..contracts import say
from ..run import processes
from ..run.locate import (
    NAME,
    LocateError,
    Toolkit,
    check_python,
    commit_of,
    noted,
    python_in,
    python_inside,
    recognise,
    toolkit_in,
)
from . import packages, python, sources
from .progress import Progress, SetupError, SetupStopped, Step, Stop, Tell
from .sources import Origin
from .workplace import Workplace

__all__ = ["Progress", "SetupError", "SetupStopped", "Step", "set_up"]

_IMPORTS = "import torchvision, torchaudio, jobs.process"  # torch alone may work where what was built for it does not
_LAST = "run.py"  # without it ``locate`` sees no AI Toolkit


def set_up(tools: Path, source: str | None, commit: str | None, tell: Tell, stop: Stop) -> Toolkit:
    """Set AI Toolkit up in ``tools``, or find that it is; ``source`` and ``commit`` default to the pinned ones.

    ``source`` is the address of a git repository or an archive, or a path to either or to AI Toolkit's files. Takes
    minutes and some gigabytes. Raises SetupStopped when ``stop`` says so, SetupError where it cannot go on.
    """
    origin = Origin.asked(source, commit)
    folder, place = tools / NAME, Workplace(tools / f"{NAME}.setup", tell, stop)
    ready = place.folder / "ready"  # all is there but for putting it in place
    try:
        place.folder.mkdir(parents=True, exist_ok=True)
        with _alone(tools):
            if recognise(folder):
                if (source or commit) and not _is_from(folder, origin):
                    raise SetupError(say("setup.another_there", folder=str(folder)))
                _repair(folder, place)
            else:
                if not ready.exists():
                    fetched = sources.fetch(origin, place)
                    _is_free(folder, fetched)
                    _equip(folder / "venv", fetched, place)
                    ready.touch()
                _put_in_place(place.folder / "sources", folder)
            shutil.rmtree(place.folder, ignore_errors=True)
            return toolkit_in(folder, "tools")
    except OSError as error:
        raise SetupError(say("setup.file", path=error.filename or str(tools), why=error.strerror or error)) from None


def _equip(environment: Path, files: Path, place: Workplace) -> None:
    """Make the environment for these files of AI Toolkit; what is there and works is left as it is.

    One in which AI Toolkit cannot be imported is removed: more packages would not mend it.
    """
    python.make(environment, place)
    packages.install(environment, files, place)
    place.tell(Progress("check"))
    try:
        check_python(python_in(environment), toolkit_in(files, "tools"))
        place.run("check", [python_in(environment), "-c", _IMPORTS], cwd=files)
    except SetupStopped:
        raise
    except (LocateError, SetupError) as error:
        shutil.rmtree(environment, ignore_errors=True)
        raise SetupError(error.sentence) from None


def _repair(folder: Path, place: Workplace) -> None:
    """Nothing, where the environment works; one that does not is made anew, unless somebody else made it."""
    place.tell(Progress("check"))
    toolkit = toolkit_in(folder, "tools")
    inside = python_inside(folder)
    try:
        if inside is None:
            raise LocateError(say("setup.no_environment", folder=str(folder)))
        check_python(inside, toolkit)
    except LocateError as error:
        if not noted(folder):
            raise SetupError(error.sentence) from None
        (folder / "venv" / packages.STAMP).unlink(missing_ok=True)
        _equip(folder / "venv", folder, place)


def _is_from(folder: Path, origin: Origin) -> bool:
    note, commit = noted(folder), commit_of(folder)
    same = commit is not None and origin.commit is not None and commit == origin.commit
    return note.get("source") == origin.source and (same or note.get("commit") == origin.commit)


def _is_free(folder: Path, files: Path) -> None:
    """Raises SetupError where something lies in the way: nothing of anybody's is written over."""
    for entry in files.iterdir():
        if (folder / entry.name).exists() or (folder / entry.name).is_symlink():
            raise SetupError(say("setup.in_the_way", path=str(folder / entry.name)))


def _put_in_place(files: Path, folder: Path) -> None:
    """Move AI Toolkit's files to where the environment is already; what an earlier setup moved is there."""
    for entry in sorted(files.iterdir(), key=lambda entry: entry.name == _LAST):
        entry.rename(folder / entry.name)


@contextmanager
def _alone(tools: Path) -> Iterator[None]:
    """One setup at a time."""
    handle = os.open(tools / "setup.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not processes.lock(handle):
            raise SetupError(say("setup.goes_on", tools=str(tools)))
        yield
    finally:
        os.close(handle)
