"""AI Toolkit under a real ComfyUI's queue: trained, watched, interrupted, found again, refused, and put to use."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from graph_server import Graphs, error, graphs_of, result, serve
from run_programs import gone
from toolkits import Toolkit

from headroom.run.checkpoints import whole_safetensors
from headroom.run.events import read_events

pytestmark = pytest.mark.comfyui
PHASES = ("startup", "load", "cache", "baseline_sample", "train", "sample", "save")
RELEASED_SECONDS = 1.0
GONE_SECONDS = 5.0


def train(job: str, **inputs: Any) -> dict[str, Any]:
    """The smallest graph that trains."""
    return {
        "1": {"class_type": "HeadroomLoadJob", "inputs": {"job_file": job}},
        "2": {"class_type": "HeadroomTrain", "inputs": {"job": ["1", 0], **inputs}},
    }


def with_budget(prompt: dict[str, Any], gib: float, node: str = "2", **inputs: Any) -> dict[str, Any]:
    """The graph with a budget on one of its nodes."""
    given = {"gpu": "auto", "vram": gib, "unit": "GiB", **inputs}
    prompt["9"] = {"class_type": "HeadroomMemoryBudget", "inputs": given}
    prompt[node]["inputs"]["budget"] = ["9", 0]
    return prompt


def check(job: str, **inputs: Any) -> dict[str, Any]:
    """A load check alone."""
    prompt = train(job, **inputs)
    prompt["2"]["class_type"] = "HeadroomLoadCheck"
    return prompt


def modules_in(lora: Path) -> int:
    """How many modules a LoRA has, from its file's header."""
    with lora.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(name.endswith((".lora_down.weight", ".lora_A.weight")) for name in header)


def cached(history: dict[str, Any]) -> list[str]:
    """The nodes that ComfyUI served from its cache."""
    return next(said["nodes"] for name, said in history["status"]["messages"] if name == "execution_cached")


def runs_of(graphs: Graphs, panel: dict[str, Any]) -> list[Path]:
    """The folders of all runs beside one."""
    return sorted((graphs.runs / panel["run"]).parent.glob("run-*"))


# Training to the end


@pytest.mark.parametrize("architecture", ["sd1", "zimage"])
def test_a_graph_trains_and_core_takes_what_comes_out(graphs: Graphs, architecture: str) -> None:
    def learns_fast(process: dict[str, Any]) -> None:
        process["train"]["lr"] = 1e-1

    prompt = train(graphs.job(architecture, learns_fast)) | {
        "3": {"class_type": "TinyCoreModel", "inputs": {"architecture": architecture}},
        "4": {"class_type": "LoraModelLoader", "inputs": {"model": ["3", 0], "lora": ["2", 0], "strength_model": 1.0}},
        "5": {"class_type": "CountPatches", "inputs": {"model": ["4", 0]}},
        "6": {
            "class_type": "HeadroomApplyLoRA",
            "inputs": {"model": ["3", 0], "run": ["2", 2], "strength_model": 1.0, "strength_clip": 1.0},
        },
        "7": {"class_type": "CountPatches", "inputs": {"model": ["6", 0]}},
        "8": {"class_type": "PreviewImage", "inputs": {"images": ["2", 3]}},
        "9": {"class_type": "LossGraphNode", "inputs": {"loss": ["2", 5], "filename_prefix": "loss"}},
    }
    logged = len(graphs.comfyui.log())
    prompt_id = graphs.queue(prompt)
    seen: dict[str, bytes] = {}

    def over() -> Any:
        told = graphs.status()
        if told.get("state") == "running":
            for file in told.get("samples", ()):
                if file not in seen:
                    query = urlencode({"run": told["run"], "file": file})
                    seen[file] = graphs.comfyui.call(f"/headroom/runs/sample?{query}")[1]
        return graphs.comfyui.call(f"/history/{prompt_id}")[1].get(prompt_id)

    history = graphs.until(over)
    panel = result(history, "2")
    assert panel["outcome"] == "finished", panel
    assert panel["title"] == "Trained: all 4 steps"
    assert len(seen) >= 4, "previews arrive while it trains"
    firsts = [seen[file] for file in sorted(seen) if file.rpartition(".")[0].endswith("_0")]
    assert len(set(firsts)) == len(firsts) > 1, "and change as the LoRA learns"
    (name,) = [value for key, value in panel["facts"] if key == "LoRA"]
    lora = graphs.runs / ".loras" / name
    assert whole_safetensors(lora)
    offered = graphs.comfyui.call("/object_info/LoraLoader")[1]["LoraLoader"]["input"]["required"]["lora_name"][0]
    assert name in offered
    modules = modules_in(lora)
    for node in ("5", "7"):
        assert history["outputs"][node] == {"patches": [modules], "fitting": [modules]}, "core takes every key"
    log = graphs.comfyui.log()[logged:]
    assert "lora key not loaded" not in log and "NOT LOADED" not in log
    assert len(history["outputs"]["8"]["images"]) == len(panel["samples"]) == 2
    assert history["outputs"]["9"]["images"]


def test_a_job_that_was_trained_is_found_again_until_its_files_change(graphs: Graphs) -> None:
    prompt = train(graphs.job())
    first = result(graphs.run(prompt), "2")
    again = graphs.run(prompt)
    assert "2" in cached(again), "what comes behind a finished training need not be made again"
    assert result(again, "2") == first
    asked = {"2": prompt["2"] | {"inputs": prompt["2"]["inputs"] | {"save_on_cancel": True}}}
    panel = result(graphs.run(prompt | asked), "2")
    assert panel["title"].startswith("Trained before") and panel["run"] == first["run"], "by the store, not the cache"
    caption = graphs.toolkit.tiny / "images" / "0.txt"
    told = caption.read_text(encoding="utf-8")
    caption.write_text("something else", encoding="utf-8")
    try:
        other = result(graphs.run(prompt), "2")
    finally:
        caption.write_text(told, encoding="utf-8")
    assert other["title"] == "Trained: all 4 steps" and other["run"] != first["run"]


def test_previews_of_a_run_are_made_with_its_lora_and_other_prompts(graphs: Graphs) -> None:
    def learns_fast(process: dict[str, Any]) -> None:
        process["train"]["lr"] = 1e-1

    prompt = train(graphs.job("zimage", learns_fast)) | {
        "3": {
            "class_type": "HeadroomPreviewSample",
            "inputs": {"run": ["2", 2], "lora_name": "(the run's own, or none)", "prompts": "a thing\n\na dog\na cow"},
        },
        "4": {"class_type": "PreviewImage", "inputs": {"images": ["3", 0]}},
    }
    history = graphs.run(prompt)
    trained, shown = result(history, "2"), result(history, "3")
    assert shown["title"] == "It loads, caches and makes its first previews"
    assert len(history["outputs"]["4"]["images"]) == len(shown["samples"]) == 3
    samples = graphs.runs / trained["run"] / ".." / "output"
    before = next(path for path in samples.rglob("*.jpg") if path.stem.endswith("_000000000_0"))
    made = graphs.runs / shown["run"] / ".." / "output" / shown["samples"][0]
    assert made.read_bytes() != before.read_bytes(), "the same prompt and seed, with the LoRA"


# Failures


def test_a_run_that_fails_passes_on_what_is_known_and_the_classifier_corrects_its_job(standin_graphs: Graphs) -> None:
    graphs = standin_graphs
    job = graphs.job(heavy=True)
    roomy = with_budget(check(job, until="baseline_sample"), 8.0)
    peaks = {row[0]: _gib(row[1]) for row in result(graphs.run(roomy), "2")["peaks"]}
    prompt = with_budget(train(job), 1.05 * max(peaks.values()))
    prompt |= {
        "3": {"class_type": "PreviewImage", "inputs": {"images": ["2", 3]}},
        "4": {
            "class_type": "HeadroomOOMClassifier",
            "inputs": {"log": "(paste or choose a log)", "run": ["2", 2], "strength": "next"},
        },
        "5": {"class_type": "HeadroomSaveJob", "inputs": {"job": ["4", 0]}},
    }
    history = graphs.run(prompt)
    failed, found = result(history, "2"), result(history, "4")
    assert failed["outcome"] == "failed" and failed["told"], failed
    assert "3" not in history["outputs"], "what has no pictures to show is not run"
    assert (found["cause"], found["stage"], found["safe_to_retry"]) == ("vram", "train", True), found["summary"]
    assert found["changes"] and found["yaml"]
    saved = result(history, "5")
    assert json.loads((graphs.comfyui.base / "output" / saved["subfolder"] / saved["file"]).read_text(encoding="utf-8"))
    again = graphs.run(prompt)
    assert "2" not in cached(again), "a failure is never served again"
    assert result(again, "2")["run"] != failed["run"]


def _gib(text: str) -> float:
    """The peak in "123 MiB of 8 GiB"."""
    size, unit = text.split()[:2]
    return float(size) / (1024 if unit == "MiB" else 1)


def test_a_failure_stops_the_queue_where_that_is_asked_for(standin_graphs: Graphs) -> None:
    def no_dataset(process: dict[str, Any]) -> None:
        process["datasets"][0]["folder_path"] += "/nowhere"

    said = error(standin_graphs.run(train(standin_graphs.job(change=no_dataset), on_failure="raise")))
    assert said["exception_type"].endswith("RunFailed")
    assert said["exception_message"].startswith("It failed before the first step")
    assert standin_graphs.status()["state"] == "failed"


def test_a_load_check_says_that_a_job_does_not_load_and_holds_the_training_back(graphs: Graphs) -> None:
    job = graphs.job()
    peak = _gib(result(graphs.run(with_budget(check(job), 8.0)), "2")["peaks"][0][1])
    prompt = with_budget(check(job), peak / 2)
    prompt["3"] = {"class_type": "HeadroomTrain", "inputs": {"job": ["2", 0]}}
    history = graphs.run(prompt)
    panel = result(history, "2")
    assert (panel["outcome"], panel["title"]) == ("failed", "It failed before the first step")
    assert "while loading the model" in panel["told"][0], panel["told"]
    assert "3" not in history["outputs"]


def test_without_ai_toolkit_the_error_says_where_to_get_it(standin_graphs: Graphs) -> None:
    standin_graphs.set(HEADROOM_AI_TOOLKIT="")
    try:
        said = error(standin_graphs.run(train(standin_graphs.job())))["exception_message"]
    finally:
        standin_graphs.set()
    assert "Settings › Headroom" in said and "python -m headroom setup" in said


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"unit": "% of the card"}, "no NVIDIA GPU here"),
        ({"unit": "GiB", "gpu": "7: RTX 9090"}, "no such card here"),
    ],
)
def test_a_budget_of_a_card_that_is_not_there_is_an_error(
    standin_graphs: Graphs, inputs: dict[str, str], says: str
) -> None:
    prompt = with_budget(train(standin_graphs.job()), 50.0, **inputs)
    assert says in error(standin_graphs.run(prompt))["exception_message"]


# Strangers' jobs


def _section(name: str, **values: Any) -> Any:
    return lambda process: process[name].update(values)


def _dataset(**values: Any) -> Any:
    return lambda process: process["datasets"][0].update(values)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda process: process.update(type="custom_process"), "not one of AI Toolkit's trainers"),
        (_dataset(folder_path="/etc"), "not inside the folders"),
        (_dataset(folder_path="../../../.ssh"), "not inside the folders"),
        (_section("model", name_or_path="//host/share"), "another machine"),
        (_section("model", name_or_path="${HF_TOKEN}"), "environment variable HF_TOKEN"),
        (_section("network", pretrained_lora_path="lora.pt"), "a file format in which code can hide"),
        (_section("model", trust_remote_code=True), "would load code"),
    ],
)
def test_a_hostile_job_is_refused_with_the_reason(standin_graphs: Graphs, change: Any, says: str) -> None:
    said = error(standin_graphs.run(train(standin_graphs.job(change=change))))["exception_message"]
    assert says in said, said
    assert "HEADROOM_READS" in said, "and what the server's owner can do"
    assert not standin_graphs.processes()


@pytest.mark.parametrize("name", ["../escaped", "n" * 300, "a/b", "CON"])
def test_a_name_that_leads_elsewhere_is_refused(standin_graphs: Graphs, name: str) -> None:
    job = standin_graphs.job()
    file = standin_graphs.comfyui.base / "input" / job
    data = json.loads(file.read_text(encoding="utf-8"))
    data["config"]["name"] = name
    file.write_text(json.dumps(data), encoding="utf-8")
    assert "cannot be the name of a folder" in error(standin_graphs.run(train(job)))["exception_message"]


def test_what_is_made_safe_in_a_job_is_said_on_the_node(standin_graphs: Graphs) -> None:
    def sends(process: dict[str, Any]) -> None:
        process["training_folder"] = "/tmp/elsewhere"
        process["save"]["push_to_hub"] = True
        process["logging"] = {"use_wandb": True}

    panel = result(standin_graphs.run(check(standin_graphs.job(change=sends))), "2")
    said = "\n".join(panel["changes"])
    assert "training_folder: /tmp/elsewhere" in said
    assert "push_to_hub: true → false" in said and "use_wandb: true → false" in said
    assert not Path("/tmp/elsewhere").exists()


def test_the_owner_of_the_server_can_allow_a_folder(standin_graphs: Graphs, tmp_path: Path) -> None:
    job = standin_graphs.job(change=_dataset(folder_path=str(tmp_path)))
    standin_graphs.set(HEADROOM_READS=str(tmp_path))
    try:
        assert result(standin_graphs.run(check(job)), "2")["outcome"] == "finished"
    finally:
        standin_graphs.set()


# Interrupts and kills


@pytest.mark.parametrize("phase", PHASES)
def test_an_interrupt_releases_the_node_at_once_and_leaves_nothing(standin_graphs: Graphs, phase: str) -> None:
    _interrupted_in(standin_graphs, phase)


def test_an_interrupt_of_a_training_releases_each_ai_toolkit(graphs: Graphs) -> None:
    _interrupted_in(graphs, "train")


def _interrupted_in(graphs: Graphs, phase: str) -> None:
    with graphs.held(phase):
        prompt_id = graphs.queue(train(graphs.job()))
        if phase == "startup":
            graphs.until(lambda: graphs.status().get("state") == "running")
        else:
            graphs.until(lambda: graphs.status().get("phase") == phase and graphs.status()["state"] == "running")
        begun = time.monotonic()
        graphs.comfyui.call("/interrupt", {})
        history = graphs.ended(prompt_id)
        assert time.monotonic() - begun < RELEASED_SECONDS
        assert history["status"]["messages"][-1][0] == "execution_interrupted"
        assert graphs.status()["state"] == "interrupted"
        graphs.until(lambda: not graphs.processes(), GONE_SECONDS)


def test_a_cancel_that_saves_is_gone_on_from(standin_graphs: Graphs) -> None:
    graphs = standin_graphs
    prompt = train(graphs.job(change=_section("train", disable_sampling=True), steps=3000), save_on_cancel=True)
    prompt_id = graphs.queue(prompt)
    graphs.until(lambda: graphs.status().get("step", 0) >= 4)
    graphs.comfyui.call("/interrupt", {})
    graphs.ended(prompt_id)
    prompt_id = graphs.queue(prompt)  # at once, while the first is still saving
    graphs.until(lambda: graphs.status().get("state") == "running" and graphs.status().get("step"))
    first, second = runs_of(graphs, graphs.status())
    graphs.comfyui.call("/interrupt", {})
    graphs.ended(prompt_id)

    def steps(run: Path) -> list[int]:
        return [event.keys["step"] for event in read_events(run / "events.jsonl") if event.event == "step"]

    assert steps(second)[0] == steps(first)[-1] + 1
    graphs.until(lambda: not graphs.processes(), 60)


@pytest.mark.parametrize("turn", [1, 2, *(pytest.param(turn, marks=pytest.mark.soak) for turn in range(3, 21))])
def test_a_kill_of_comfyui_leaves_no_process(standin_toolkit: Toolkit, tmp_path: Path, turn: int) -> None:
    with serve(standin_toolkit, tmp_path) as comfyui:
        graphs = graphs_of(comfyui, standin_toolkit)
        graphs.queue(train(graphs.job(change=_section("train", disable_sampling=True), steps=3000)))
        graphs.until(lambda: graphs.status().get("step", 0) >= 3)
        running = graphs.processes()
        assert len(running) >= 2, "a supervisor and a trainer"
        assert comfyui._process
        os.kill(comfyui._process.pid, signal.SIGKILL)
        gone(*running)
    assert list((graphs.runs).rglob("*.safetensors")), "the checkpoint is kept"
