"""The packages that AI Toolkit gets: torch as its README says and the driver allows, then its own requirements."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..configs import load
from ..contracts import say
from ..memory.machine import space_at, which_system
from ..memory.nvml import GpuReading, read_gpus
from ..run.locate import python_in
from .progress import Progress, SetupError
from .workplace import Workplace

INDEX = "HEADROOM_TORCH_INDEX"  # a mirror, or `default` for the index that pip is set to

STAMP = "headroom.json"
_README = re.compile(r"pip3? install .*?(torch==\S+ torchvision==\S+ torchaudio==\S+)(?: --index-url (\S+))?")
_FROM_GITHUB = re.compile(r"git\+(https://github\.com/[\w.-]+/[\w.-]+?)(?:\.git)?@([\w./-]+)")
_RAW_PROGRESS = (24, 1)  # the first pip that counts the bytes of a download in lines
_NOT_ASKED = "doctor.nvml.no_package"
_NO_GPU = ("doctor.nvml.no_driver", "doctor.nvml.none")


@dataclass(frozen=True)
class Torch:
    """What to install first and from where (``None``: pip's own index), and what goes with it at the end."""

    packages: tuple[str, ...]
    index: str | None
    after: tuple[str, ...] = ()


def install(environment: Path, sources: Path, place: Workplace) -> None:
    """Install what is missing; where all was installed before, do nothing. Raises SetupError."""
    torch = choose_torch(sources)
    requirements = place.folder / "requirements.txt"
    requirements.write_text("".join(f"{line}\n" for line in _requirements(sources)), encoding="utf-8")
    told = json.dumps([torch.packages, torch.index, torch.after, requirements.read_text(encoding="utf-8")])
    digest = hashlib.sha256(told.encode()).hexdigest()
    stamp = environment / STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return
    _room(place.folder, torch)
    python = python_in(environment)
    constraints = place.folder / "constraints.txt"  # else a requirement may exchange torch for another build
    constraints.write_text("".join(f"{package}\n" for package in torch.packages), encoding="utf-8")
    pip = [str(python), "-m", "pip", "install", *_counting(python)]
    index = ["--index-url", torch.index] if torch.index else []
    place.tell(Progress("torch", detail=" ".join(torch.packages)))
    place.run("torch", [*pip, *torch.packages, *index])
    place.tell(Progress("packages"))
    place.run("packages", [*pip, "-c", str(constraints), "-r", str(requirements)], cwd=sources)
    if torch.after:
        place.run("packages", [*pip, "-c", str(constraints), *torch.after])
    stamp.write_text(digest, encoding="utf-8")


def choose_torch(sources: Path, gpus: GpuReading | None = None, system: str | None = None) -> Torch:
    """The torch for this machine: of the pinned versions the build that the driver runs, else the README's own line.

    Raises SetupError where the driver is too old for any.
    """
    config, system = load("ai_toolkit"), system or which_system() or "linux"
    found = _README.search(_read(sources / "README.md"))
    packages = tuple(found[1].split()) if found else tuple(config["torch"])
    ours = packages == tuple(config["torch"])
    index = _index(config, gpus or read_gpus(), system) if ours or found is None else found[2]
    after = config["after"].get(system, config["after"]["default"]) if ours else ()
    named = os.environ.get(INDEX)
    return Torch(packages, (None if named == "default" else named) if named else index, tuple(after))


def _index(config: dict[str, Any], gpus: GpuReading, system: str) -> str | None:
    builds = config["indexes"]["cuda"]
    none = any(note.key in _NO_GPU for note in gpus.notes)
    unasked = any(note.key == _NOT_ASKED for note in gpus.notes)
    if system == "macos" or none or (unasked and not shutil.which("nvidia-smi")):
        return config["indexes"]["none"][system]
    if gpus.driver is None or not (major := gpus.driver.split(".")[0]).isdecimal():
        return builds[0]["url"]  # a GPU may be here: only the driver could not be asked
    for build in builds:
        if int(major) >= build["driver"]:
            return build["url"]
    raise SetupError(say("setup.driver_too_old", driver=gpus.driver, least=builds[-1]["driver"]))


def _requirements(sources: Path) -> Iterator[str]:
    """AI Toolkit's requirements as one list; without git, what it takes from GitHub by git comes as an archive."""
    names = load("ai_toolkit")["requirements"]
    wanted = sources / names.get(f"{which_system()}-{platform.machine().lower()}", names["default"])
    file = wanted if wanted.is_file() else sources / names["default"]
    if not file.is_file():
        raise SetupError(say("setup.no_requirements", file=str(file)))
    git = shutil.which("git") is not None
    for line in _lines(file, set()):
        yield line if git else _FROM_GITHUB.sub(r"\1/archive/\2.zip", line)


def _lines(file: Path, seen: set[Path]) -> Iterator[str]:
    if file in seen:
        return
    seen.add(file)
    for line in _read(file).splitlines():
        text = re.sub(r"(^|\s)#.*$", "", line).strip()
        if nested := re.fullmatch(r"(?:-r|--requirement)[\s=]*(\S+)", text):
            yield from _lines(file.parent / nested[1], seen)
        elif bound := re.fullmatch(r"(?:-c|--constraint)[\s=]*(\S+)", text):
            yield f"-c {(file.parent / bound[1]).absolute()}"
        elif text:
            yield text


def needs_gib(torch: Torch) -> float:
    """How much free disk it takes at least while AI Toolkit is set up with that torch."""
    return load("ai_toolkit")["needs_gib"]["cuda" if torch.index and "/cu" in torch.index else "none"]


def _room(folder: Path, torch: Torch) -> None:
    needed, space = needs_gib(torch), space_at(folder)
    if space and space.free_gib < needed:
        raise SetupError(say("setup.disk", path=str(folder.parent), free=space.free_gib, needed=needed))


def _counting(python: Path) -> list[str]:
    """How the environment's pip is asked to count a download, where it can."""
    asked = subprocess.run(
        [str(python), "-m", "pip", "--version"],
        capture_output=True,
        text=True,
        check=False,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
    found = re.match(r"pip (\d+)\.(\d+)", asked.stdout)
    return ["--progress-bar", "raw" if found and (int(found[1]), int(found[2])) >= _RAW_PROGRESS else "off"]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
