"""Find AI Toolkit on this machine, its version, and the Python that belongs to it: all of it that is run here.

Which program that is, only the server's own settings say: the environment, the settings file, the tools place.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .. import places
from ..contracts import Sentence, say
from ..report.wording import words

FOLDER = "HEADROOM_AI_TOOLKIT"
PYTHON = "HEADROOM_AI_TOOLKIT_PYTHON"
NAME, NOTE = "ai-toolkit", ".headroom.json"  # in the tools place, and in there

_FILES = ("run.py", "version.py")
_FOLDERS = ("toolkit", "jobs")
_ENVIRONMENTS = (".venv", "venv")  # in the order of AI Toolkit's own UI (ui/cron/pythonPath.ts)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SLOWEST_SECONDS = 120.0  # the first import of torch from a cold network disk
_ANSWER = "headroom-python "
_QUESTION = f"""
import json, platform, sys
answer = {{"python": platform.python_version()}}
try:
    import torch
    answer["torch"], answer["cuda"] = str(torch.__version__), torch.version.cuda
except BaseException as error:
    answer["error"] = f"{{type(error).__name__}}: {{error}}"
print({_ANSWER!r} + json.dumps(answer))
"""


class LocateError(Exception):
    """AI Toolkit or its Python cannot be used; ``sentence`` says why, and the way out."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(words(sentence))
        self.sentence = sentence


@dataclass(frozen=True)
class Toolkit:
    """An AI Toolkit: its folder, and version and commit where these can be read."""

    folder: Path
    found_by: Literal["setting", "tools"]
    version: str | None
    commit: str | None


@dataclass(frozen=True)
class ToolkitPython:
    """A Python that imports torch. ``cuda`` is the version that torch was built for, ``None`` for a build without."""

    path: Path
    version: str
    torch: str
    cuda: str | None


def find_toolkit(settings: Path | None = None) -> Toolkit:
    """AI Toolkit as the settings name it, else in the tools place. Raises LocateError.

    A setting that is wrong is an error, never a reason to take another AI Toolkit.
    """
    named = places.setting(FOLDER, settings)
    if named:
        folder = Path(named).expanduser()
        if missing := _missing(folder):
            raise LocateError(say("locate.not_recognised", setting=FOLDER, folder=str(folder), missing=missing))
        return toolkit_in(folder, "setting")
    folder = places.tools() / NAME
    if _missing(folder):
        raise LocateError(say("locate.none", setting=FOLDER, tools=str(folder)))
    return toolkit_in(folder, "tools")


def recognise(folder: Path) -> bool:
    """Whether a folder is an AI Toolkit, by its files."""
    return not _missing(folder)


def toolkit_in(folder: Path, found_by: Literal["setting", "tools"]) -> Toolkit:
    """The AI Toolkit in a folder that is one."""
    version = re.search(r"^VERSION\s*=\s*[\"']([^\"']+)", _read(folder / "version.py"), re.M)
    return Toolkit(folder.absolute(), found_by, version[1] if version else None, commit_of(folder))


def commit_of(folder: Path) -> str | None:
    """The commit that is checked out, read from git's files so that no git is needed; else what ``setup`` noted."""
    git = folder / ".git"
    if git.is_file():  # a worktree or a submodule says where its own is
        git = folder / _read(git).removeprefix("gitdir:").strip()
    head = _read(git / "HEAD").strip()
    if head.startswith("ref:"):
        ref = head.removeprefix("ref:").strip()
        shared = git / (_read(git / "commondir").strip() or ".")
        packed = re.search(rf"^([0-9a-f]+) {re.escape(ref)}$", _read(shared / "packed-refs"), re.M)
        head = _read(git / ref).strip() or _read(shared / ref).strip() or (packed[1] if packed else "")
    head = head or noted(folder).get("found") or ""
    return head if _COMMIT.fullmatch(head) else None


def noted(folder: Path) -> dict[str, str]:
    """What ``setup`` noted in an AI Toolkit it fetched: ``source``, the ``commit`` asked for, the one ``found``."""
    try:
        note = json.loads(_read(folder / NOTE))
    except ValueError:
        return {}
    return {name: value for name, value in note.items() if isinstance(value, str)} if isinstance(note, dict) else {}


def find_python(toolkit: Toolkit, settings: Path | None = None) -> Path:
    """The Python the settings name, else the one of the virtual environment inside AI Toolkit. Raises LocateError."""
    named = places.setting(PYTHON, settings)
    if named:
        python = Path(named).expanduser()
        if not python.is_file():
            raise LocateError(say("locate.no_such_python", setting=PYTHON, python=str(python)))
        return python
    if inside := python_inside(toolkit.folder):
        return inside
    raise LocateError(say("locate.no_python", folder=str(toolkit.folder), looked=_ENVIRONMENTS, setting=PYTHON))


def python_inside(folder: Path) -> Path | None:
    """The Python of the virtual environment that lies in a folder; ``None`` where there is none."""
    pythons = (python_in(folder / environment) for environment in _ENVIRONMENTS)
    return next((python for python in pythons if python.is_file()), None)  # unresolved: that keeps its environment


def python_in(environment: Path) -> Path:
    """Where a virtual environment has its Python."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def check_python(python: Path, toolkit: Toolkit, seconds: float = _SLOWEST_SECONDS) -> ToolkitPython:
    """What a Python says of itself and of its torch, asked where a run would start. Raises LocateError."""
    foreign = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")  # of the Python that we run in
    try:
        done = subprocess.run(
            [str(python), "-c", _QUESTION],
            cwd=toolkit.folder,
            env={name: value for name, value in os.environ.items() if name not in foreign},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except subprocess.TimeoutExpired:
        raise LocateError(say("locate.slow", python=str(python), seconds=round(seconds))) from None
    except OSError as error:
        raise LocateError(say("locate.not_started", python=str(python), why=error.strerror or str(error))) from None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    found = next((line for line in reversed(lines) if line.startswith(_ANSWER)), None)
    if found is None:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = said[-1] if said else f"exit code {done.returncode}"
        raise LocateError(say("locate.not_started", python=str(python), why=why))
    answer = json.loads(found.removeprefix(_ANSWER))
    if "error" in answer:
        why = str(answer["error"]).splitlines()[0]
        raise LocateError(say("locate.no_torch", python=str(python), why=why, folder=str(toolkit.folder)))
    return ToolkitPython(python, answer["python"], answer["torch"], answer["cuda"])


def _missing(folder: Path) -> str | None:
    """The first thing that an AI Toolkit has and this folder does not."""
    if not folder.is_dir():
        return str(folder)
    absent = [name for name in _FILES if not (folder / name).is_file()]
    absent += [f"{name}/" for name in _FOLDERS if not (folder / name).is_dir()]
    return absent[0] if absent else None


def _read(path: Path) -> str:
    """A small text file; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
