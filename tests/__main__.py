"""`python tests`: every check this project has, in an environment it makes for itself."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
OLDEST = (3, 10)


@dataclass(frozen=True)
class Check:
    """One kind of check: its command, or the reason why it cannot run here and what would enable it."""

    name: str
    command: list[str]
    folder: Path = ROOT
    missing: str = ""

    def run(self) -> bool:
        """Run it with its output on the screen; whether it passed."""
        print(f"\n=== {self.name}", flush=True)
        begun = time.monotonic()
        passed = subprocess.run(self.command, cwd=self.folder, check=False).returncode == 0
        print(f"=== {self.name}: {'passed' if passed else 'FAILED'} in {time.monotonic() - begun:.0f} s", flush=True)
        return passed


def _node() -> str | None:
    """Node.js of this machine, else the one that Playwright brings along."""
    brought = next((ROOT / ".cache").glob("venv-*/**/playwright/driver/node*"), None)
    return shutil.which("node") or (str(brought) if brought else None)


def _install_browser() -> None:
    """Chromium and Chinese letters from Debian's packages, where this may be done and there is none."""
    import chromium

    if chromium.program() or not shutil.which("apt-get") or os.name == "nt" or os.geteuid() != 0:
        return
    print("Installing Chromium with apt-get (as root, since there is none)", flush=True)
    install = ["apt-get", "install", "-y", "-qq", "chromium", "fonts-noto-cjk"]
    log = ROOT / ".cache" / "apt.log"
    with log.open("wb") as file:
        for command in (install, ["apt-get", "update", "-qq"], install):
            if not subprocess.run(command, stdout=file, stderr=file, check=False).returncode and command == install:
                return
    print(f"  that did not work (log: {log.relative_to(ROOT)}); the browser tests will be skipped", flush=True)


def _typed_copy() -> Path:
    """The pack under an importable name, for mypy: a clone's folder may be called anything."""
    folder = ROOT / ".cache" / "types"
    shutil.rmtree(folder, ignore_errors=True)
    pack = folder / "headroom_pack"
    for name in ("headroom", "nodes"):
        shutil.copytree(ROOT / name, pack / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "__init__.py", pack)
    return folder


def _checks(python: Path, for_pytest: list[str]) -> list[Check]:
    node = _node()
    scripts = sorted(str(path) for path in (TESTS / "js").glob("*.test.mjs"))
    mypy = [str(python), "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "-p", "headroom_pack"]
    pytest = [str(python), "-m", "pytest", "-c", str(TESTS / "pytest.ini"), "--rootdir", str(TESTS), str(TESTS)]
    return [
        Check("lint (ruff)", [str(python), "-m", "ruff", "check", "."]),
        Check("types (mypy)", mypy, _typed_copy()),
        Check(
            "browser code (node --test)", [str(node), "--test", *scripts], missing="" if node else "Node.js 18 or newer"
        ),
        Check("behaviour (pytest)", [*pytest, *for_pytest]),
    ]


def main() -> int:
    """Run all checks; the exit code is 0 when every one that could run passed."""
    if sys.version_info < OLDEST:
        print("python tests needs Python 3.10 or newer; this is {}.{}.".format(*sys.version_info), file=sys.stderr)
        return 2
    sys.path[:0] = [str(ROOT), str(TESTS)]
    from demo.environment import COMFYUI, NEWER_FRONTEND, TOOLS, EnvironmentFailure, frontend, prepare

    parser = argparse.ArgumentParser(prog="python tests", description=__doc__)
    parser.add_argument("--soak", action="store_true", help="add the long loops")
    options, for_pytest = parser.parse_known_args()
    try:
        python = prepare(COMFYUI, TOOLS, frontend(NEWER_FRONTEND))
    except EnvironmentFailure as failure:
        print(f"\n{failure}", file=sys.stderr)
        return 1
    _install_browser()
    checks = _checks(python, [*for_pytest, *(["--soak"] if options.soak else [])])
    failed = [check.name for check in checks if not check.missing and not check.run()]
    for check in checks:
        if check.missing:
            print(f"Not run: {check.name}; it needs {check.missing}.")
    print(f"\n{'FAILED: ' + ', '.join(failed) if failed else 'Every check passed.'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
