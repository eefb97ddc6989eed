"""Memory runs out in each phase of a run of AI Toolkit: where it is said to have, and what becomes of the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toolkits import ProbeRun, Toolkit, job_data, run_probe

NUMBERS = {"requested_gib": 2.0, "total_gib": 23.65, "free_gib": 1.0}


def run_job(
    toolkit: Toolkit,
    folder: Path,
    architecture: str,
    change: Callable[[dict[str, Any]], None],
    *options: str,
    faults: dict[str, list[int]] | None = None,
    **how: Any,
) -> ProbeRun:
    """The job of these tests, changed."""
    data = job_data(toolkit, folder / "out", architecture, **how)
    change(data["config"]["process"][0])
    job = folder / "job.json"
    job.write_text(json.dumps(data), encoding="utf-8")
    return run_probe(toolkit, folder, job, *options, faults=faults)


def as_it_is(process: dict[str, Any]) -> None:
    pass


def texts_cached(process: dict[str, Any]) -> None:
    process["datasets"][0]["cache_text_embeddings"] = True
    process["train"]["unload_text_encoder"] = True


def without_previews(process: dict[str, Any]) -> None:
    process["train"]["disable_sampling"] = True


def where(ran: ProbeRun) -> list[tuple[str, str]]:
    return [(each.keys["phase"], each.keys["inside"]) for each in ran.of("out_of_memory")]


@pytest.mark.parametrize(
    ("architecture", "change", "kind", "phase", "inside"),
    [
        ("sd1", as_it_is, "load", "load", "load"),
        ("sd1", as_it_is, "encode", "cache", "encode"),
        ("zimage", texts_cached, "text", "cache", "text"),
        ("zimage", without_previews, "save", "save", "save"),
    ],
)
def test_what_ends_the_run_is_told_in_its_phase(
    toolkit: Toolkit,
    tmp_path: Path,
    architecture: str,
    change: Callable[[dict[str, Any]], None],
    kind: str,
    phase: str,
    inside: str,
) -> None:
    ran = run_job(toolkit, tmp_path, architecture, change, faults={kind: [1]})
    assert ran.exit_code == 1, ran.log[-3000:]
    assert where(ran) == [(phase, inside)]
    assert ran.of("out_of_memory")[0].keys["numbers"] == NUMBERS
    assert ran.finished["how"] == "failed" and "CUDA out of memory" in ran.finished["message"]
    assert ran.phases[-1].endswith("end")


@pytest.mark.parametrize("architecture", ["sd1", "zimage"])
def test_what_ai_toolkit_or_the_probe_can_go_on_after_ends_no_run(
    toolkit: Toolkit, tmp_path: Path, architecture: str
) -> None:
    # The first backward is the dry step's; the second preview pass is the first in the training.
    faults = {"backward": [2], "optimizer": [2], "denoise": [4], "decode": [4], "save_optimizer": [1]}
    ran = run_job(toolkit, tmp_path, architecture, as_it_is, faults=faults)
    assert ran.exit_code == 0, ran.log[-3000:]
    assert {("train", "backward"), ("train", "optimizer"), ("save", "save")} <= set(where(ran))
    assert {inside for phase, inside in where(ran) if "sample" in phase} == {"denoise", "decode"}
    assert [each.keys["step"] for each in ran.of("skipped")] == [1, 3]
    assert ran.finished == {"how": "finished", "steps": {"done": 4, "total": 4, "skipped_batches": 2}}
    assert len(ran.of("preview")) == 6 and {each.keys["outcome"] for each in ran.of("preview")} > {"made"}


def test_a_prompt_that_is_encoded_again_after_an_error_is_told(toolkit: Toolkit, tmp_path: Path) -> None:
    ran = run_job(toolkit, tmp_path, "zimage", texts_cached, "--until", "cache", faults={"static_text": [1]})
    assert ran.exit_code == 0, ran.log[-3000:]
    assert where(ran) == [("cache", "text")]
    assert ran.finished["how"] == "finished"


def test_two_that_run_out_now_and_then_leave_two_skipped_batches_of_the_largest_bucket(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    # The first on the largest bucket is the dry step.
    ran = run_job(toolkit, tmp_path, "sd1", without_previews, faults={"largest": [2, 4]}, steps=9)
    assert ran.exit_code == 0, ran.log[-3000:]
    assert where(ran) == [("train", "forward")] * 2
    assert [each.keys["bucket"] for each in ran.of("skipped")] == [[128, 128, 1]] * 2
    files = [Path(file).name for each in ran.of("skipped") for file in each.keys["files"]]
    assert len(files) == 2 and set(files) <= {"0.png", "1.png"}
    assert [each.keys["numbers"] for each in ran.of("skipped")] == [NUMBERS] * 2
    assert ran.finished == {"how": "finished", "steps": {"done": 9, "total": 9, "skipped_batches": 2}}


def test_an_optimizer_whose_state_does_not_fit_again_is_told(toolkit: Toolkit, tmp_path: Path) -> None:
    assert run_job(toolkit, tmp_path, "sd1", without_previews, steps=2).exit_code == 0
    again = run_job(toolkit, tmp_path, "sd1", without_previews, faults={"load_optimizer": [1]}, steps=4)
    events = again.events[[each.event for each in again.events].index("finished") + 1 :]
    assert again.exit_code == 0, again.log[-3000:]
    assert "Failed to load optimizer state from" in again.log
    assert [(each.keys["phase"], each.keys["inside"]) for each in events if each.event == "out_of_memory"] == [
        ("load", "load")
    ]
    assert [each.keys["step"] for each in events if each.event == "step"] == [3, 4]


def test_layers_that_stay_as_wide_as_they_were_are_told_once_and_counted(real_toolkit: Toolkit, tmp_path: Path) -> None:
    def quantized(process: dict[str, Any]) -> None:
        process["model"] |= {"quantize": True, "qtype": "qfloat8"}

    ran = run_job(real_toolkit, tmp_path, "zimage", quantized, "--until", "load", faults={"quantize": [5, 6, 7]})
    assert ran.exit_code == 0, ran.log[-3000:]
    assert ran.log.count("Failed to quantize") == 3
    assert where(ran) == [("load", "quantize")]
    assert "memory ran out 3 times in quantize, and AI Toolkit went on" in [
        each.keys["text"] for each in ran.of("note")
    ]


def test_a_budget_below_what_loading_takes_is_felt_there(toolkit: Toolkit, tmp_path: Path) -> None:
    ran = run_job(toolkit, tmp_path, "zimage", as_it_is, "--vram-gib", "0.001", "--until", "load")
    assert ran.exit_code == 1
    assert where(ran) == [("load", "load")]
    assert ran.of("out_of_memory")[0].keys["numbers"]["total_gib"] == pytest.approx(0.001, rel=0.05)
    assert [each.keys["phase"] for each in ran.of("phase")] == ["load", "load"]


def test_a_run_above_its_host_memory_is_saved_and_ends_with_words_for_it(toolkit: Toolkit, tmp_path: Path) -> None:
    ran = run_job(
        toolkit, tmp_path, "sd1", without_previews, "--host-ram-gib", "1.6", faults={"hog": [3]}, steps=100000
    )
    assert ran.exit_code == 1, ran.log[-3000:]
    assert ran.finished["how"] == "failed" and "host memory limit exceeded" in ran.finished["message"]
    assert "Error running job: host memory limit exceeded" in ran.log
    assert ran.of("checkpoint")[-1].keys["step"] == ran.finished["steps"]["done"] >= 2
    assert Path(ran.of("checkpoint")[-1].keys["path"]).stat().st_size > 0
    assert not ran.of("out_of_memory")
    assert max(each.keys["host_gib"] or 0 for each in ran.of("memory")) > 1.6


def test_before_training_there_is_nothing_to_save(toolkit: Toolkit, tmp_path: Path) -> None:
    ran = run_job(toolkit, tmp_path, "sd1", as_it_is, "--host-ram-gib", "0.02")
    assert ran.exit_code == 1
    assert ran.finished["how"] == "failed" and "host memory limit exceeded" in ran.finished["message"]
    assert "MemoryError: host memory limit exceeded" in ran.log
    assert not ran.of("step")
