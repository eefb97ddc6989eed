"""The probe in AI Toolkit, on the CPU, with tiny random models: an older architecture and a newer one."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from toolkits import ENVIRONMENT, MODELS, STEPS, ProbeRun, Toolkit, probe_command, run_probe, write_job

from headroom.contracts import Event
from headroom.run.events import read_events


@pytest.fixture(scope="module", params=sorted(MODELS))
def plain(
    request: pytest.FixtureRequest, toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, ProbeRun]:
    """A run that goes well but for its third step, with its tensors counted; the first forward is the dry step's."""
    folder = tmp_path_factory.mktemp(request.param)
    job = write_job(toolkit, folder, request.param)
    return request.param, run_probe(toolkit, folder, job, "--meter", faults={"train": [4]})


def weights(folder: Path) -> str:
    """A digest of the tensors of the finished LoRA; the file's own header holds the time."""
    text = (folder / "out" / "tiny" / "tiny.safetensors").read_bytes()
    return hashlib.sha256(text[8 + int.from_bytes(text[:8], "little") :]).hexdigest()


def test_a_run_tells_its_phases_steps_previews_and_checkpoints(plain: tuple[str, ProbeRun]) -> None:
    _, ran = plain
    assert ran.exit_code == 0, ran.log[-3000:]
    assert ran.phases == [
        "load begin", "load end",
        "cache begin", "cache end",
        "baseline_sample begin", "baseline_sample end",
        "train begin",
        "sample begin", "sample end",
        "save begin", "save end",
        "save begin", "save end",
        "sample begin", "sample end",
        "train end",
    ]  # fmt: skip
    assert [each.keys["step"] for each in ran.of("step")] == [1, 2, 4]
    for step in ran.of("step"):
        assert step.keys["total"] == STEPS and step.keys["batch"] == 1 and step.keys["lr"] == 1e-3
        assert step.keys["loss"] > 0 and step.keys["seconds"] > 0
        assert step.keys["bucket"] in ([128, 128, 1], [96, 160, 1])
    previews = [(each.keys["step"], each.keys["index"]) for each in ran.of("preview")]
    assert previews == [(step, index) for step in (0, 2, STEPS) for index in (0, 1)]
    for preview in ran.of("preview"):
        assert preview.keys["outcome"] == "made" and preview.keys["reason"] is None
        assert Path(preview.keys["path"]).stat().st_size > 0
    checkpoints = [Path(each.keys["path"]) for each in ran.of("checkpoint")]
    assert [path.name for path in checkpoints] == ["tiny_000000003.safetensors", "tiny.safetensors"]
    assert [path.stat().st_size for path in checkpoints] == [each.keys["bytes"] for each in ran.of("checkpoint")]
    assert ran.finished == {"how": "finished", "steps": {"done": STEPS, "total": STEPS, "skipped_batches": 1}}


def test_the_step_that_ai_toolkit_skips_in_silence_is_told(plain: tuple[str, ProbeRun]) -> None:
    _, ran = plain
    (error,), (skipped,) = ran.of("out_of_memory"), ran.of("skipped")
    assert "Tried to allocate" not in ran.log
    assert (error.keys["phase"], error.keys["inside"]) == ("train", "forward")
    assert error.keys["numbers"] == {"requested_gib": 2.0, "total_gib": 23.65, "free_gib": 1.0}
    assert skipped.keys["step"] == 3 and skipped.keys["message"] == error.keys["message"]
    assert skipped.keys["numbers"] == error.keys["numbers"]
    assert skipped.keys["bucket"] in ([128, 128, 1], [96, 160, 1])
    assert [Path(file).suffix for file in skipped.keys["files"]] == [".png"]


def test_the_largest_bucket_is_tried_before_the_first_step(plain: tuple[str, ProbeRun]) -> None:
    _, ran = plain
    (at,) = [number for number, event in enumerate(ran.events) if "the largest bucket" in event.keys.get("text", "")]
    assert ran.events[at].keys["text"] == "the largest bucket fits: 128x128x1, batch of 1"
    assert not any(event.event == "step" for event in ran.events[:at])
    assert next(event for event in ran.events[at + 1 :] if event.event != "memory").event == "step"


def test_every_phase_has_its_peak(plain: tuple[str, ProbeRun]) -> None:
    _, ran = plain
    for event in ran.of("phase"):
        if event.keys["state"] == "end":
            assert event.keys["peak"]["host_gib"] is None or event.keys["peak"]["host_gib"] > 0.05
    # The weights that a load leaves on the card alone are 2.2 MB in either model.
    assert 0.002 < ran.peak("load") < 0.1
    assert ran.peak("train") > ran.peak("load") * 0.5
    assert ran.peak("sample") > 0.003


def test_neither_failing_previews_nor_the_dry_step_change_what_is_learned(
    plain: tuple[str, ProbeRun], toolkit: Toolkit, tmp_path: Path
) -> None:
    architecture, well = plain
    # A smaller one that fits, one that does not, and a pass that fails after everything was moved and merged.
    faults = {"train": [3], "decode": [1, 3, 4], "pipeline": [3]}
    ran = run_probe(
        toolkit, tmp_path, write_job(toolkit, tmp_path, architecture), "--largest-bucket", "off", faults=faults
    )
    assert ran.exit_code == 0, ran.log[-3000:]
    told = {(each.keys["step"], each.keys["index"]): each.keys for each in ran.of("preview")}
    assert {which: keys["outcome"] for which, keys in told.items()} == {
        (0, 0): "smaller",
        (0, 1): "skipped",
        (2, 0): "skipped",
        (2, 1): "skipped",
        (STEPS, 0): "made",
        (STEPS, 1): "made",
    }
    assert (told[0, 0]["width"], told[0, 0]["height"]) < (128, 128)
    assert Path(told[0, 0]["path"]).is_file()
    assert told[0, 1]["path"] is None and "Tried to allocate 2.00 GiB" in told[0, 1]["reason"]
    where = Counter((each.keys["phase"], each.keys["inside"]) for each in ran.of("out_of_memory"))
    assert where == {("baseline_sample", "decode"): 3, ("sample", "prepare"): 1, ("train", "forward"): 1}
    assert len(list((tmp_path / "out" / "tiny" / "samples").glob("*.jpg"))) == 3
    assert ran.finished == well.finished
    assert [each.keys["loss"] for each in ran.of("step")] == [each.keys["loss"] for each in well.of("step")]
    assert weights(tmp_path) == weights(well.folder)


def test_a_load_check_ends_after_loading(toolkit: Toolkit, tmp_path: Path) -> None:
    ran = run_probe(toolkit, tmp_path, write_job(toolkit, tmp_path, "zimage"), "--until", "load")
    assert ran.exit_code == 0, ran.log[-3000:]
    assert ran.phases == ["load begin", "load end"]
    assert ran.finished["how"] == "finished" and ran.finished["steps"]["done"] is None
    assert "create LoRA network" in ran.log and "Caching latents" not in ran.log


@dataclass
class Asked:
    """A run with a pipe to it."""

    process: subprocess.Popen[bytes]
    events: Path

    def wait_for(self, wanted: Callable[[Event], bool], seconds: float = 300) -> None:
        end = time.monotonic() + seconds
        while not any(wanted(event) for event in read_events(self.events)):
            assert time.monotonic() < end and self.process.poll() is None, "the run ended, or nothing came"
            time.sleep(0.1)


def start(toolkit: Toolkit, folder: Path, steps: int) -> Asked:
    job = write_job(toolkit, folder, "sd1", steps=steps)
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            probe_command(toolkit, folder, job, "--control", "0"),
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return Asked(process, folder / "events.jsonl")


def test_a_run_saves_samples_and_stops_with_a_checkpoint_when_asked(toolkit: Toolkit, tmp_path: Path) -> None:
    asked = start(toolkit, tmp_path, steps=100000)
    assert asked.process.stdin is not None
    try:
        asked.wait_for(lambda event: event.event == "step")
        asked.process.stdin.write(b"save\nsample\nstop\n")
        asked.process.stdin.flush()
        assert asked.process.wait(300) == 0
    finally:
        asked.process.kill()
    events = read_events(asked.events)
    finished = events[-1].keys
    assert (finished["how"], finished["steps"]["skipped_batches"]) == ("stopped", 0)
    (last,) = [each for each in events if each.event == "checkpoint"][-1:]
    assert last.keys["step"] == finished["steps"]["done"] and Path(last.keys["path"]).stat().st_size > 0
    assert any(each.event == "preview" and each.keys["step"] > 0 for each in events)
    assert "Job stopped" in (tmp_path / "log").read_text(encoding="utf-8", errors="replace")


def test_the_end_of_the_control_pipe_ends_the_run(toolkit: Toolkit, tmp_path: Path) -> None:
    asked = start(toolkit, tmp_path, steps=100000)
    assert asked.process.stdin is not None
    try:
        asked.wait_for(lambda event: event.event == "phase")
        asked.process.stdin.close()
        asked.process.wait(60)
    finally:
        asked.process.kill()
    events = read_events(asked.events)
    assert any(each.event == "note" and "control pipe was closed" in each.keys["text"] for each in events)
    assert not any(each.event == "step" for each in events)


def test_a_budget_between_training_and_preview_lets_the_training_finish(
    plain: tuple[str, ProbeRun], toolkit: Toolkit, tmp_path: Path
) -> None:
    architecture, well = plain
    budget = 1.05 * max(well.peak(phase) for phase in ("load", "cache", "train", "save"))
    ran = run_probe(
        toolkit, tmp_path, write_job(toolkit, tmp_path, architecture, preview=512), "--vram-gib", str(budget)
    )
    assert ran.exit_code == 0, ran.log[-3000:]
    assert ran.finished == {"how": "finished", "steps": {"done": STEPS, "total": STEPS, "skipped_batches": 0}}
    assert {each.keys["outcome"] for each in ran.of("preview")} <= {"smaller", "skipped"}
    assert len(ran.of("preview")) == 6
    assert max(ran.peak(phase) for phase in ("load", "train", "sample", "baseline_sample")) <= budget


@pytest.mark.parametrize("mode", ["stop", "continue"])
def test_a_budget_below_the_training_peak_is_felt_before_the_first_step(
    plain: tuple[str, ProbeRun], toolkit: Toolkit, tmp_path: Path, mode: str
) -> None:
    architecture, well = plain
    budget = 1.05 * max(well.peak(phase) for phase in ("load", "cache", "train"))
    job = write_job(toolkit, tmp_path, architecture, heavy=True)
    ran = run_probe(toolkit, tmp_path, job, "--vram-gib", str(budget), "--largest-bucket", mode)
    assert ran.exit_code == 1
    error = next(each for each in ran.of("out_of_memory") if each.keys["phase"] == "train")
    assert error.keys["bucket"] == [128, 128, 1] and len(error.keys["files"]) == 4
    assert error.keys["inside"] in ("forward", "backward", "text")  # captions are encoded in the step here
    assert error.keys["numbers"]["total_gib"] == pytest.approx(budget, rel=0.05)
    assert ran.finished["how"] == "failed"
    if mode == "stop":
        assert "The largest bucket (128x128x1, batch of 4) does not fit. CUDA out of memory." in ran.finished["message"]
        assert ran.finished["steps"]["done"] == 0 and not ran.of("skipped")
        assert "Error running job: The largest bucket" in ran.log
    else:
        assert [each.keys["step"] for each in ran.of("skipped")] == [1, 2, 3]
        assert ran.finished["steps"]["done"] == 3
        assert "OOM during training step 3 times in a row" in ran.log


def test_a_largest_bucket_whose_captions_do_not_fit_is_told_with_its_files(toolkit: Toolkit, tmp_path: Path) -> None:
    job = write_job(toolkit, tmp_path, "zimage")
    job.write_text(job.read_text(encoding="utf-8").replace('"train": {', '"train": {"disable_sampling": true, '))
    # The first text is that of no prompt, the second the dry step's.
    ran = run_probe(toolkit, tmp_path, job, faults={"text": [2]})
    (error,) = ran.of("out_of_memory")
    assert (error.keys["phase"], error.keys["inside"], error.keys["bucket"]) == ("train", "text", [128, 128, 1])
    assert [Path(file).suffix for file in error.keys["files"]] == [".png"]
    assert ran.exit_code == 1 and ran.finished["steps"]["done"] == 0
