"""A ComfyUI whose nodes run an AI Toolkit: the stand-in or the real one, by the server's own settings."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from toolkits import ENVIRONMENT, Toolkit, job_data

from demo.comfyui import ComfyUI
from demo.environment import python

STANDINS = Path(__file__).resolve().parent / "standins"
SLOWEST_SECONDS = 300.0


@dataclass
class Graphs:
    """A running ComfyUI, its AI Toolkit, and the files that a graph there can name."""

    comfyui: ComfyUI
    toolkit: Toolkit
    hold: Path
    _jobs: int = 0
    _before: dict[str, Any] = field(default_factory=dict)

    @property
    def runs(self) -> Path:
        return self.comfyui.base / "output" / "headroom"

    def set(self, **settings: str) -> None:
        """The server's settings, these beside its AI Toolkit."""
        own = {"HEADROOM_AI_TOOLKIT": str(self.toolkit.folder), "HEADROOM_AI_TOOLKIT_PYTHON": str(self._python())}
        file = self.comfyui.base / "user" / "headroom.json"
        file.write_text(json.dumps(own | settings), encoding="utf-8")

    def _python(self) -> Path:
        """AI Toolkit's Python, as a program that can hold it in a phase."""
        program = self.comfyui.base / "python"
        held = f'PYTHONPATH="{STANDINS / "held"}" HEADROOM_TEST_HOLD="{self.hold}"'
        program.write_text(f'#!/bin/sh\n{held} exec "{self.toolkit.python}" "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        return program

    @contextmanager
    def held(self, phase: str) -> Iterator[None]:
        """The next runs stay in that phase; one that still does at the end is interrupted."""
        self.hold.write_text(phase, encoding="utf-8")
        try:
            yield
        finally:
            self.hold.unlink()
            self.comfyui.call("/interrupt", {})

    def job(
        self, architecture: str = "sd1", change: Callable[[dict[str, Any]], None] = lambda _: None, **how: Any
    ) -> str:
        """The name of a new job file in the input folder; ``change`` edits what it holds."""
        self._jobs += 1
        data = job_data(self.toolkit, Path("out"), architecture, **how)
        data["config"]["name"] = f"job {self._jobs}"
        change(data["config"]["process"][0])
        name = f"job-{self._jobs}.json"
        (self.comfyui.base / "input" / name).write_text(json.dumps(data), encoding="utf-8")
        return name

    def queue(self, prompt: dict[str, Any]) -> str:
        """Queue a prompt and return its id at once."""
        self._before = self._told()
        status, answer = self.comfyui.call("/prompt", {"prompt": prompt, "client_id": "tests"})
        assert status == 200 and not answer["node_errors"], answer
        return answer["prompt_id"]

    def run(self, prompt: dict[str, Any]) -> Any:
        """Queue a prompt and return its history once it has ended."""
        return self.comfyui.run(prompt, SLOWEST_SECONDS)

    def ended(self, prompt_id: str, seconds: float = SLOWEST_SECONDS) -> Any:
        """The history of a prompt that was queued, once it has ended."""
        return self.until(lambda: self.comfyui.call(f"/history/{prompt_id}")[1].get(prompt_id), seconds)

    def status(self) -> dict[str, Any]:
        """What the page was told last of the prompt that was queued last."""
        told = self._told()
        return {} if told == self._before else told

    def _told(self) -> dict[str, Any]:
        told = self.comfyui.call("/headroom/runs")[1]
        return told[-1] if told else {}

    def until(self, holds: Callable[[], Any], seconds: float = SLOWEST_SECONDS) -> Any:
        """What is asked, once it holds."""
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < deadline, f"it did not come about in time\n{self.comfyui.log()[-3000:]}"
            time.sleep(0.02)
        return found

    def processes(self) -> list[int]:
        """The processes of runs of this server: what was started with a path of its folder, less the server itself."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            except OSError:
                continue
            if str(self.comfyui.base).encode() in line and b"main.py" not in line:
                found.append(int(entry.name))
        return found


def result(history: dict[str, Any], node: str) -> dict[str, Any]:
    """What a node showed, in English."""
    assert history["status"]["status_str"] == "success", history["status"]["messages"][-1]
    panels = history["outputs"][node]["headroom"]
    return next((panel for panel in panels if panel.get("lang") == "en"), panels[0])


def error(history: dict[str, Any]) -> dict[str, Any]:
    """What ComfyUI's error dialog would say."""
    name, said = history["status"]["messages"][-1]
    assert name == "execution_error", history["status"]["messages"][-1]
    return said


def serve(toolkit: Toolkit, base: Path) -> ComfyUI:
    """A ComfyUI with the toolkit's tiny models in its folders, not yet started."""
    shutil.copytree(toolkit.tiny, base / "models" / "tiny")
    (base / "custom_nodes").mkdir()
    shutil.copy(STANDINS / "core_models.py", base / "custom_nodes")
    # Settings come from its own file alone, whatever the tests themselves were given.
    unset = {"HEADROOM_AI_TOOLKIT": "", "HEADROOM_AI_TOOLKIT_PYTHON": "", "XDG_DATA_HOME": str(base / "data")}
    return ComfyUI(base, python(), None, ENVIRONMENT | unset)


def graphs_of(comfyui: ComfyUI, toolkit: Toolkit) -> Graphs:
    """The graphs of a server that runs."""
    graphs = Graphs(comfyui, replace(toolkit, tiny=comfyui.base / "models" / "tiny"), comfyui.base / "hold")
    graphs.set()
    return graphs


def _running(toolkit: Toolkit, base: Path) -> Iterator[Graphs]:
    if not python().exists():
        pytest.skip("a real ComfyUI; `python tests` installs it")
    if os.name == "nt":
        pytest.skip("the processes of runs are looked up in /proc")
    with serve(toolkit, base) as comfyui:
        yield graphs_of(comfyui, toolkit)


@pytest.fixture(scope="module")
def graphs(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graphs]:
    """A ComfyUI with each AI Toolkit there is."""
    yield from _running(toolkit, tmp_path_factory.mktemp("graphs"))


@pytest.fixture(scope="module")
def standin_graphs(standin_toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graphs]:
    """A ComfyUI with the stand-in."""
    yield from _running(standin_toolkit, tmp_path_factory.mktemp("graphs"))
