"""The engine with AI Toolkit on the CPU: a tiny LoRA is trained to the end, stopped, resumed and cancelled."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_programs import until
from toolkits import Toolkit

from headroom.contracts import Job
from headroom.job import read_job
from headroom.job.stranger import Rules
from headroom.run import processes
from headroom.run.ai_toolkit import AiToolkit
from headroom.run.ai_toolkit_run import AiToolkitRun
from headroom.run.checkpoints import opens
from headroom.run.events import read_events
from headroom.run.store import Store

JOB = """\
job: extension
config:
  name: tiny
  process:
    - type: sd_trainer
      training_folder: output
      device: cpu
      network: {{type: lora, linear: 4, linear_alpha: 4}}
      save: {{dtype: float32, save_every: 2, max_step_saves_to_keep: 4}}
      datasets:
        - {{folder_path: "{models}/images", caption_ext: txt, resolution: [256], num_workers: 0}}
      train:
        {{batch_size: 1, steps: {steps}, train_unet: true, train_text_encoder: false, noise_scheduler: ddpm,
          optimizer: adamw, lr: 1e-4, dtype: fp32, skip_first_sample: true, disable_sampling: true}}
      model: {{name_or_path: "{models}/sd15", arch: sd1}}
"""
SLOWEST_SECONDS = 300


@pytest.fixture
def models(toolkit: Toolkit) -> Path:
    return toolkit.tiny


@pytest.fixture
def engine(tmp_path: Path, toolkit: Toolkit) -> AiToolkit:
    rules = Rules(output=tmp_path, reads=(toolkit.tiny,), base=toolkit.folder)
    return AiToolkit(toolkit.folder, toolkit.python, rules, Store(tmp_path / "runs"))


def _job(models: Path, steps: int) -> Job:
    return read_job(JOB.format(models=models.as_posix(), steps=steps))


def _ended(run: AiToolkitRun) -> Any:
    result = run.wait(SLOWEST_SECONDS)
    assert result is not None
    assert run._trainer
    assert not processes.tree(run._trainer.pid or -1, run._trainer.mark)
    return result


def _log(run: AiToolkitRun) -> str:
    return run.run.log.read_text(encoding="utf-8", errors="replace")


def test_a_load_check_and_then_a_training_finish_and_the_same_again_is_not_run(engine: AiToolkit, models: Path) -> None:
    check = engine.start(_job(models, 4), until="load")
    result = _ended(check)
    assert (result.outcome, result.checkpoint, "load" in result.peaks) == ("finished", None, True), _log(check)

    run = engine.start(_job(models, 4))
    kinds = [event.event for event in run.events]
    result = _ended(run)
    assert (result.outcome, run.short_of) == ("finished", ()), _log(run)
    assert (result.steps.done, result.steps.total) == (4, 4)
    assert Path(result.checkpoint) == run.run.output / "tiny" / "tiny.safetensors"
    assert kinds.count("step") == 4 and kinds[-1] == "finished"
    assert [each["step"] for each in run.run.index() if each["kind"] == "checkpoint"][-1] == 4
    assert engine.start(_job(models, 4)).folder == run.folder


def test_a_stop_saves_a_cancel_ends_at_once_and_the_next_run_goes_on(engine: AiToolkit, models: Path) -> None:
    def steps(run: AiToolkitRun) -> list[int]:
        return [event.keys["step"] for event in _sofar(run) if event.event == "step"]

    first = engine.start(_job(models, 2000))
    until(lambda: len(steps(first)) >= 3 or first.result, SLOWEST_SECONDS)
    first.ask("stop")
    result = _ended(first)
    assert (result.outcome, result.diagnosis) == ("cancelled", None), _log(first)
    saved = int(Path(result.checkpoint).stem.rpartition("_")[2])
    assert saved == steps(first)[-1]

    second = engine.start(_job(models, 2000))
    assert second.run.output == first.run.output
    until(lambda: len(steps(second)) >= 1 or second.result, SLOWEST_SECONDS)
    assert steps(second)[0] == saved + 1, _log(second)
    begun = time.monotonic()
    second.cancel()
    assert time.monotonic() - begun < 1
    assert second.wait(5), "the tree is gone within five seconds"
    assert _ended(second).outcome == "cancelled"
    assert Path(result.checkpoint).is_file()


@pytest.mark.parametrize("victim", ["supervisor", "trainer"])
def test_after_a_kill_nothing_runs_and_the_next_run_goes_on_from_the_checkpoint(
    engine: AiToolkit, models: Path, victim: str
) -> None:
    first = engine.start(_job(models, 2000))
    until(lambda: any(event.event == "checkpoint" for event in _sofar(first)) or first.result, SLOWEST_SECONDS)
    trainer = first._trainer
    assert trainer and trainer.pid
    os.kill(trainer.pid if victim == "trainer" else trainer.supervisor.pid, signal.SIGKILL)
    result = _ended(first)
    assert result.outcome == "failed" and result.checkpoint, _log(first)
    whole = [path for path in (first.run.output / "tiny").glob("tiny_*.safetensors") if opens(path)]
    saved = max(int(path.stem.rpartition("_")[2]) for path in whole)
    torn = whole[0].with_name("tiny_000001999.safetensors")  # as a kill in the middle of a save leaves it
    torn.write_bytes(whole[0].read_bytes()[:-1])

    second = engine.start(_job(models, 2000))
    until(lambda: any(event.event == "step" for event in _sofar(second)) or second.result, SLOWEST_SECONDS)
    begun_at = next(event.keys["step"] for event in _sofar(second) if event.event == "step")
    second.cancel()
    _ended(second)
    assert begun_at == saved + 1, _log(second)


def test_a_dataset_that_is_not_there_is_a_failure_with_a_diagnosis(
    engine: AiToolkit, models: Path, tmp_path: Path
) -> None:
    job = read_job(_job(models, 4).text.replace("/images", "/none"))
    run = replace(engine, store=Store(tmp_path / "other")).start(job)
    result = _ended(run)
    assert (result.outcome, result.diagnosis.memory_failure) == ("failed", False), _log(run)
    assert result.diagnosis.evidence


def _sofar(run: AiToolkitRun) -> list[Any]:
    return read_events(run.run.events)
