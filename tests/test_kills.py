"""Whoever is killed, with AI Toolkit training: nothing runs on, the card is free, and the next run goes on from what was saved."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from run_programs import gone, until
from toolkits import ENVIRONMENT, Toolkit, job_data

from headroom.contracts import Budget, Job
from headroom.job import read_job
from headroom.job.stranger import Rules
from headroom.memory.nvml import GpuReading
from headroom.run import gpu_lock, processes
from headroom.run.ai_toolkit import AiToolkit
from headroom.run.ai_toolkit_run import AiToolkitRun
from headroom.run.checkpoints import opens
from headroom.run.events import read_events
from headroom.run.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
HERE = Path(__file__).resolve().parent
GPU = "GPU-1"
SLOWEST_SECONDS = 300
RELEASED_SECONDS, GONE_SECONDS = 1, 5
PHASES = ("startup", "load", "cache", "baseline_sample", "train", "sample", "save")
# Runs a job and waits for it, as ComfyUI does.
PARENT = """
import json, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/tests"]
from test_kills import Place
place = Place(**{name: Path(path) for name, path in json.loads(sys.argv[2]).items()})
run = place.start()
print(json.dumps([run._trainer.supervisor.pid, run._trainer.pid, run._trainer.mark]), flush=True)
print(json.dumps(run.wait().outcome), flush=True)
"""


@dataclass(frozen=True)
class Place:
    """Where a job is run: AI Toolkit, its Python and models, and a folder for all that comes of it."""

    toolkit: Path
    python: Path
    tiny: Path
    folder: Path

    @property
    def engine(self) -> AiToolkit:
        rules = Rules(output=self.folder, reads=(self.tiny,), base=self.toolkit)
        return AiToolkit(
            self.toolkit,
            self.python,
            rules,
            Store(self.folder / "runs"),
            locks=self.folder / "locks",
            probe=HERE / "probe_state.py",
            gpus=GpuReading,
        )

    @property
    def job(self) -> Job:
        return read_job((self.folder / "job.json").read_text(encoding="utf-8"))

    def start(self) -> AiToolkitRun:
        return self.engine.start(self.job, Budget(gpu=GPU))

    def hold(self, phase: str | None) -> None:
        """The next trainers stay in that phase."""
        file = self.folder / "hold"
        if phase is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(phase, encoding="utf-8")

    def states(self, when: str) -> list[dict[str, Any]]:
        """What ``probe_state`` wrote down: the step, and digests of weights and optimizer."""
        file = self.folder / "state.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [state for state in map(json.loads, lines) if state.pop("when") == when]

    def events(self) -> list[tuple[str, Any]]:
        """Kind and phase of the events of all runs here."""
        files = (self.folder / "runs").rglob("events.jsonl")
        return [(event.event, event.keys.get("phase")) for file in files for event in read_events(file)]


@pytest.fixture
def place(toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A job that saves at its third step and makes previews at its fourth, over and over."""
    for name, value in {**ENVIRONMENT, "STATE_FILE": str(tmp_path / "state.jsonl")}.items():
        monkeypatch.setenv(name, value)
    data = job_data(toolkit, Path("output"), "sd1", preview=64, steps=5000)
    data["config"]["process"][0]["datasets"][0]["num_workers"] = 1
    data["config"]["process"][0]["sample"] |= {"sample_every": 4, "prompts": ["a thing"]}
    (tmp_path / "job.json").write_text(json.dumps(data), encoding="utf-8")
    python = tmp_path / "python"
    held = f'PYTHONPATH="{HERE / "standins" / "held"}" HEADROOM_TEST_HOLD="{tmp_path / "hold"}"'
    python.write_text(f'#!/bin/sh\n{held} exec "{toolkit.python}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return Place(toolkit.folder, python, toolkit.tiny, tmp_path)


def kill(place: Place, victim: str) -> None:
    """Run the job in a program of its own, and kill one of the three once the trainer is held in its first preview."""
    place.hold("sample")
    where = {name: str(getattr(place, name)) for name in ("toolkit", "python", "tiny", "folder")}
    command = [sys.executable, "-c", PARENT, str(HERE.parent), json.dumps(where)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            supervisor, trainer, mark = json.loads(parent.stdout.readline())
            until(lambda: ("phase", "sample") in place.events() or parent.poll() is not None, SLOWEST_SECONDS)
            assert len(processes.tree(trainer, mark)) >= 2, "a trainer, and one that loads its pictures"
            assert gpu_lock.holder(GPU, place.folder / "locks")
            pid = {"parent": parent.pid, "supervisor": supervisor, "trainer": trainer}[victim]
            os.kill(pid, signal.SIGKILL)
            gone(supervisor, trainer, mark=mark)
            if victim != "parent":
                assert json.loads(parent.stdout.readline()) == "failed"
        finally:
            parent.kill()


@pytest.mark.parametrize("turn", [1, 2, *(pytest.param(turn, marks=pytest.mark.soak) for turn in range(3, 21))])
@pytest.mark.parametrize("victim", ["parent", "supervisor", "trainer"])
def test_no_single_kill_loses_what_was_saved(place: Place, victim: str, turn: int) -> None:
    kill(place, victim)
    assert gpu_lock.holder(GPU, place.folder / "locks") is None
    (saved,), (checkpoint,) = place.states("saved"), (place.folder / "runs").rglob("tiny_*.safetensors")
    assert opens(checkpoint) and saved["step"] == int(checkpoint.stem.rpartition("_")[2]) == 3

    place.hold("train")
    second = place.start()
    until(lambda: len(place.states("begun")) == 2 or second.result, SLOWEST_SECONDS)
    second.cancel()
    assert second.wait(SLOWEST_SECONDS)
    begun, resumed = place.states("begun")
    assert resumed == saved and resumed["states"] > 0
    assert resumed["weights"] != begun["weights"]
    assert opens(checkpoint)


@pytest.mark.parametrize("phase", PHASES)
def test_a_cancel_in_any_phase_returns_at_once_and_leaves_nothing(place: Place, phase: str) -> None:
    place.hold(phase)
    run = place.start()
    trainer = run._trainer
    assert trainer is not None
    if phase != "startup":
        until(lambda: ("phase", phase) in place.events() or run.result, SLOWEST_SECONDS)
    assert run.result is None, run.run.log.read_text(encoding="utf-8", errors="replace")[-2000:]
    begun = time.monotonic()
    run.cancel()
    assert time.monotonic() - begun < RELEASED_SECONDS
    result = run.wait(GONE_SECONDS)
    assert result and result.outcome == "cancelled", "gone within five seconds"
    assert not processes.tree(-1, trainer.mark)
    assert gpu_lock.holder(GPU, place.folder / "locks") is None
