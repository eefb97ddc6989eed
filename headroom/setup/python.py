"""The Python that AI Toolkit gets: one that suits it, and a virtual environment made with what there is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..configs import load
from ..contracts import say
from ..run.locate import python_in
from .progress import Progress, SetupError
from .workplace import Workplace

Version = tuple[int, int]

_ANSWER_SECONDS = 30.0
_MODULES = ("venv", "ensurepip", "virtualenv", "pip")
_QUESTION = f"""
import importlib.util, json, sys
has = [name for name in {_MODULES!r} if importlib.util.find_spec(name)]
print(json.dumps([sys.executable, sys.version_info[:2], has]))
"""
# By code, not by `-m`: the Python that comes with ComfyUI on Windows ignores PYTHONPATH.
_VIRTUALENV = "import sys; sys.path.insert(0, sys.argv.pop(1)); from virtualenv.__main__ import run; run(sys.argv[1:])"


@dataclass(frozen=True)
class Base:
    """A Python to make an environment of, and which of the modules for that it has."""

    python: str
    version: Version
    has: frozenset[str]


def make(environment: Path, place: Workplace) -> None:
    """Make the virtual environment, or leave one that runs as it is. Raises SetupError."""
    if _asked([str(python_in(environment))], ("pip",)):
        return
    place.tell(Progress("python"))
    place.go_on()
    shutil.rmtree(environment, ignore_errors=True)
    environment.parent.mkdir(parents=True, exist_ok=True)
    seen = list(_pythons())
    usable = [base for base in seen if base.has & {"venv", "virtualenv", "pip"}]
    if usable:
        _with_python(usable[0], environment, place)
    elif uv := shutil.which("uv"):
        _with_uv(uv, environment, place)
    else:
        raise SetupError(
            say("setup.no_suitable_python", least=_text("least"), best=_text("best"), python=sys.executable)
        )


def _with_python(base: Base, environment: Path, place: Workplace) -> None:
    """By its own venv; Debian's and the one that comes with ComfyUI on Windows have none: by virtualenv."""
    if {"venv", "ensurepip"} <= base.has:
        place.run("python", [base.python, "-I", "-m", "venv", environment])
        return
    fetched = place.folder / "virtualenv"
    if "virtualenv" not in base.has:
        place.run("python", [base.python, "-m", "pip", "install", "--target", fetched, "virtualenv"])
    seeds = str(place.folder / "seeds")
    command = [base.python, "-c", _VIRTUALENV, str(fetched), "--no-periodic-update", "--app-data", seeds]
    place.run("python", [*command, str(environment)])


def _with_uv(uv: str, environment: Path, place: Workplace) -> None:
    """uv brings the Python too, into the tools place."""
    own = {"UV_PYTHON_INSTALL_DIR": str(place.folder.parent / "python"), "UV_CACHE_DIR": str(place.folder / "uv")}
    place.run("python", [uv, "venv", "--seed", "--python", _text("best"), environment], env=own)


def _pythons() -> Iterator[Base]:
    """The Pythons of this machine that suit AI Toolkit: this one first, then the best version downwards."""
    least, best = _version("least"), _version("best")
    versions = [(best[0], minor) for minor in range(best[1], least[1] - 1, -1)]
    commands = [[sys.executable]] if sys.executable else []
    commands += [["py", f"-{major}.{minor}"] for major, minor in versions] if os.name == "nt" else []
    commands += [[f"python{major}.{minor}"] for major, minor in versions] + [["python3"], ["python"]]
    for command in commands:
        base = _asked(command)
        if base and least <= base.version <= best:
            yield base


def _asked(command: list[str], modules: tuple[str, ...] = ()) -> Base | None:
    """What a Python says of itself; ``None`` where there is none that runs and has these modules."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:], "-I", "-c", _QUESTION],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_SECONDS,
            check=False,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        python, version, has = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Base(python, (version[0], version[1]), frozenset(has)) if {*modules} <= {*has} else None


def _version(which: str) -> Version:
    major, minor = load("ai_toolkit")["python"][which]
    return major, minor


def _text(which: str) -> str:
    return "{}.{}".format(*_version(which))
