"""The probe in runs of other kinds: ended early, stopped in a preview, accumulating, regularized, quantized, offloaded."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toolkits import ENVIRONMENT, HERE, ProbeRun, Toolkit, job_data, probe_command, run_probe

from headroom.run.events import EventReader, read_events

Change = Callable[[dict[str, Any]], None]


def write(toolkit: Toolkit, folder: Path, architecture: str, change: Change, **how: Any) -> Path:
    folder.mkdir(exist_ok=True)
    data = job_data(toolkit, folder / "out", architecture, **how)
    change(data["config"]["process"][0])
    job = folder / "job.json"
    job.write_text(json.dumps(data), encoding="utf-8")
    return job


def metered(toolkit: Toolkit, folder: Path, architecture: str, change: Change, *options: str, **how: Any) -> ProbeRun:
    ran = run_probe(toolkit, folder, write(toolkit, folder, architecture, change, **how), "--meter", *options)
    assert ran.exit_code == 0, ran.log[-3000:]
    return ran


def as_it_is(process: dict[str, Any]) -> None:
    pass


@pytest.mark.parametrize(
    ("architecture", "until", "phases"),
    [
        ("zimage", "cache", ["load begin", "load end", "cache begin", "cache end"]),
        (
            "sd1",
            "baseline_sample",
            ["load begin", "load end", "cache begin", "cache end", "baseline_sample begin", "baseline_sample end"],
        ),
    ],
)
def test_a_run_ends_after_the_phase_it_was_asked_for(
    toolkit: Toolkit, tmp_path: Path, architecture: str, until: str, phases: list[str]
) -> None:
    job = write(toolkit, tmp_path, architecture, as_it_is)
    ran = run_probe(toolkit, tmp_path, job, "--until", until)
    assert ran.exit_code == 0, ran.log[-3000:]
    assert ran.phases == phases
    assert ran.finished["how"] == "finished" and not ran.finished["steps"]["done"]
    made = list((tmp_path / "out" / "tiny" / "samples").glob("*.jpg"))
    assert len(made) == len(ran.of("preview")) == (2 if until == "baseline_sample" else 0)
    assert not ran.of("step") and not ran.of("checkpoint")


@pytest.mark.parametrize("architecture", ["sd1", "zimage"])
def test_a_stop_in_a_preview_leaves_the_rest_of_the_previews_out_and_saves(
    toolkit: Toolkit, tmp_path: Path, architecture: str
) -> None:
    def many_previews(process: dict[str, Any]) -> None:
        process["sample"] |= {"prompts": ["a thing"] * 40, "sample_steps": 8}
        process["train"]["skip_first_sample"] = True

    job = write(toolkit, tmp_path, architecture, many_previews, steps=100000)
    command = probe_command(toolkit, tmp_path, job, "--control", "0")
    with (
        open(tmp_path / "log", "wb") as log,
        subprocess.Popen(
            command, env={**os.environ, **ENVIRONMENT}, stdin=subprocess.PIPE, stdout=log, stderr=log
        ) as process,
    ):
        assert process.stdin is not None
        reader = EventReader(tmp_path / "events.jsonl")
        while not any(event.event == "preview" for event in reader.read()):
            assert process.poll() is None, (tmp_path / "log").read_text(encoding="utf-8", errors="replace")[-3000:]
            time.sleep(0.02)
        process.stdin.write(b"stop\n")
        process.stdin.flush()
        assert process.wait(300) == 0
    events = read_events(tmp_path / "events.jsonl")
    previews = [event.keys for event in events if event.event == "preview"]
    left_out = [keys for keys in previews if keys["outcome"] == "skipped"]
    assert len(previews) == 40 and left_out
    assert {keys["reason"] for keys in left_out} == {"the run was asked to stop"}
    (saved,) = [event.keys for event in events if event.event == "checkpoint"]
    finished = events[-1].keys
    assert (
        finished["how"] == "stopped" and finished["steps"]["done"] == saved["step"] == 3
    )  # its previews are of step 2


def test_a_step_of_several_batches_is_one_step(toolkit: Toolkit, tmp_path: Path) -> None:
    def accumulating(process: dict[str, Any]) -> None:
        process["train"] |= {"gradient_accumulation": 2, "disable_sampling": True}

    ran = metered(toolkit, tmp_path, "zimage", accumulating)
    assert [event.keys["step"] for event in ran.of("step")] == [1, 2, 3, 4]
    assert "the largest bucket fits: 128x128x1, batch of 1" in [event.keys["text"] for event in ran.of("note")]
    assert ran.finished == {"how": "finished", "steps": {"done": 4, "total": 4, "skipped_batches": 0}}


def test_the_largest_bucket_may_be_one_of_the_pictures_that_hold_the_training_back(
    real_toolkit: Toolkit, tmp_path: Path
) -> None:
    def regularized(process: dict[str, Any]) -> None:
        process["datasets"].append(process["datasets"][0] | {"resolution": [192], "is_reg": True})
        process["train"]["disable_sampling"] = True

    ran = metered(real_toolkit, tmp_path, "sd1", regularized)
    assert "the largest bucket fits: 192x192x1, batch of 1" in [event.keys["text"] for event in ran.of("note")]
    assert ran.finished["steps"] == {"done": 4, "total": 4, "skipped_batches": 0}


@pytest.fixture(scope="module")
def plain(real_toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> ProbeRun:
    """A Z-Image run of the real AI Toolkit, to compare with."""
    return metered(real_toolkit, tmp_path_factory.mktemp("plain"), "zimage", as_it_is)


def losses(ran: ProbeRun) -> list[float]:
    return [event.keys["loss"] for event in ran.of("step")]


@pytest.mark.parametrize("qtype", ["qfloat8", "float8"])
def test_quantized_weights_take_less_of_the_card(
    plain: ProbeRun, real_toolkit: Toolkit, tmp_path: Path, qtype: str
) -> None:
    def quantized(process: dict[str, Any]) -> None:
        process["model"] |= {"quantize": True, "qtype": qtype}

    ran = metered(real_toolkit, tmp_path, "zimage", quantized)
    for phase in ("load", "sample", "train"):
        assert ran.peak(phase) < plain.peak(phase) - 0.0005  # of 2.2 MB of weights
    assert ran.finished["steps"] == {"done": 4, "total": 4, "skipped_batches": 0}


def test_offloaded_layers_leave_the_card_and_the_run_learns_the_same(
    plain: ProbeRun, real_toolkit: Toolkit, tmp_path: Path
) -> None:
    def offloaded(process: dict[str, Any]) -> None:
        process["model"] |= {
            "layer_offloading": True,
            "layer_offloading_transformer_percent": 1.0,
            "layer_offloading_text_encoder_percent": 1.0,
        }

    ran = metered(real_toolkit, tmp_path, "zimage", offloaded)
    assert ran.peak("load") < 0.1 * plain.peak("load")
    for phase in ("sample", "train"):
        assert ran.peak(phase) < plain.peak(phase) - 0.002
    assert losses(ran) == losses(plain)


def test_low_vram_takes_as_much_of_the_card_as_ai_toolkit_moves_there_anyway(
    plain: ProbeRun, real_toolkit: Toolkit, tmp_path: Path
) -> None:
    """Z-Image with ``low_vram`` stays on the host while loading; then ``BaseSDTrainProcess.run`` moves all of it."""

    def low_vram(process: dict[str, Any]) -> None:
        process["model"]["low_vram"] = True

    ran = metered(real_toolkit, tmp_path, "zimage", low_vram, "--until", "load")
    assert "Moving transformer to CPU" in ran.log
    assert ran.peak("load") == pytest.approx(plain.peak("load"), rel=0.01)


@pytest.mark.parametrize("architecture", ["sd1", "zimage"])
def test_the_peak_of_a_training_step_agrees_with_torchs_profiler(
    toolkit: Toolkit, tmp_path: Path, architecture: str
) -> None:
    """The profiler adds up what the allocator itself was asked for and given back."""

    def without_previews(process: dict[str, Any]) -> None:
        process["train"]["disable_sampling"] = True

    job = write(toolkit, tmp_path, architecture, without_previews, heavy=True)
    command = probe_command(toolkit, tmp_path, job, "--meter")
    command[1:2] = [str(HERE / "probe_profiled.py"), command[1], str(tmp_path / "peaks.json")]
    done = subprocess.run(
        command,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    peaks = json.loads((tmp_path / "peaks.json").read_text(encoding="utf-8"))
    assert peaks["meter"] > 10 * 2**20 / 8
    assert peaks["meter"] == pytest.approx(peaks["profiler"], rel=0.05)
