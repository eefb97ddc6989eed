"""A run that goes on has the weights, the optimizer's state and the step that were saved, to the last bit."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from run_programs import until
from toolkits import ENVIRONMENT, Toolkit, job_data

from headroom.contracts import Job
from headroom.job import read_job
from headroom.job.stranger import Rules
from headroom.memory.nvml import GpuReading
from headroom.run.ai_toolkit import AiToolkit, AiToolkitRun
from headroom.run.checkpoints import opens
from headroom.run.store import Store

SLOWEST_SECONDS = 300
WATCHED = Path(__file__).parent / "probe_state.py"


@pytest.fixture
def engine(toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AiToolkit:
    for name, value in {**ENVIRONMENT, "STATE_FILE": str(tmp_path / "state.jsonl")}.items():
        monkeypatch.setenv(name, value)
    rules = Rules(output=tmp_path, reads=(toolkit.tiny,), base=toolkit.folder)
    store = Store(tmp_path / "runs")
    return AiToolkit(toolkit.folder, toolkit.python, rules, store, probe=WATCHED, gpus=GpuReading)


def _job(toolkit: Toolkit, tmp_path: Path) -> Job:
    data = job_data(toolkit, tmp_path, "sd1", steps=5000)
    data["config"]["process"][0]["train"]["disable_sampling"] = True
    return read_job(json.dumps(data))


def _states(tmp_path: Path, when: str) -> list[dict[str, Any]]:
    path = tmp_path / "state.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [state for state in map(json.loads, lines) if state.pop("when") == when]


def _begun(run: AiToolkitRun, tmp_path: Path, times: int) -> None:
    until(lambda: len(_states(tmp_path, "begun")) >= times or run.result, SLOWEST_SECONDS)
    assert run.result is None, run.run.log.read_text(encoding="utf-8", errors="replace")[-3000:]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_run_goes_on_with_what_was_saved(engine: AiToolkit, toolkit: Toolkit, tmp_path: Path, end: str) -> None:
    first = engine.start(_job(toolkit, tmp_path))
    _begun(first, tmp_path, 1)
    until(lambda: len(_states(tmp_path, "saved")) >= 2 or first.result, SLOWEST_SECONDS)
    assert first._trainer
    if end == "stop":
        first.ask("stop")
    else:
        os.kill(first._trainer.pid or 0, signal.SIGKILL)
    result = first.wait(SLOWEST_SECONDS)
    assert result and result.outcome == {"stop": "cancelled", "kill": "failed"}[end]
    begun, saved = _states(tmp_path, "begun"), _states(tmp_path, "saved")
    assert begun[0]["step"] == 0 and begun[0]["states"] == 0
    folder = first.run.output / "tiny"
    newest = max(path for path in folder.glob("tiny_*.safetensors") if opens(path))

    second = engine.start(_job(toolkit, tmp_path))
    _begun(second, tmp_path, 2)
    second.cancel()
    second.wait(SLOWEST_SECONDS)
    resumed = _states(tmp_path, "begun")[1]
    assert resumed["tensors"] > 0 and resumed["states"] > 0
    assert resumed == saved[-1]
    assert resumed["step"] == int(newest.stem.rpartition("_")[2])
    assert resumed["weights"] != begun[0]["weights"]
