"""The pack in a real ComfyUI: it loads quickly, its nodes run headless, and what was pasted stays where it was put."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from demo.comfyui import STANDINS, ComfyUI, ComfyUIFailure, source
from demo.environment import ROOT, python

pytestmark = pytest.mark.comfyui

NODES = [
    "HeadroomApplyLoRA",
    "HeadroomDataset",
    "HeadroomLoadCheck",
    "HeadroomLoadJob",
    "HeadroomMemoryBudget",
    "HeadroomModel",
    "HeadroomOOMClassifier",
    "HeadroomPreviewSample",
    "HeadroomSampling",
    "HeadroomSaveJob",
    "HeadroomShowDiagnosis",
    "HeadroomTrain",
    "HeadroomTraining",
]
SAMPLES = ROOT / "example_workflows" / "samples"
LOG = "example: train_step_out_of_memory.log"
JOB = "example: train_step_out_of_memory.yaml"
TOKEN = "hf_" + "aB3" * 11
# The import of the pack alone, through ComfyUI's own loader, with everything imported that ComfyUI has by then.
MEASURE = """
import asyncio, sys, time
sys.argv = ["main.py", "--cpu", "--base-directory", sys.argv[1]]
import comfy.options; comfy.options.enable_args_parsing()
import utils.extra_config, folder_paths, nodes, server, execution
import comfy_api.latest, comfy_config.config_parser
async def load():
    server.PromptServer(asyncio.get_running_loop())
    begun, used = time.perf_counter(), time.process_time()
    loaded = await nodes.load_custom_node(sys.argv[-1] + "/custom_nodes/comfyui-headroom", module_parent="custom_nodes")
    print("loaded", loaded, (time.process_time() - used) * 1000, (time.perf_counter() - begun) * 1000)
    print("nodes", *sorted(name for name in nodes.NODE_CLASS_MAPPINGS if name.startswith("Headroom")))
    print("core", *sorted(name.partition("comfyui-headroom.headroom.")[2] for name in sys.modules if "comfyui-headroom.headroom." in name))
asyncio.run(load())
"""


def classify(**inputs: Any) -> dict[str, Any]:
    """A graph of one: the classifier alone."""
    given = {"log": LOG, "job_file": "(the job printed in the log)", "strength": "next", **inputs}
    return {"1": {"class_type": "HeadroomOOMClassifier", "inputs": given}}


def result(history: dict[str, Any], node: str = "1") -> dict[str, Any]:
    """What a node showed, in English where it had a choice."""
    assert history["status"]["status_str"] == "success", history["status"]["messages"][-1]
    panels = history["outputs"][node]["headroom"]
    return next((panel for panel in panels if panel.get("lang") == "en"), panels[0])


def error(history: dict[str, Any]) -> str:
    """What ComfyUI's error dialog would say."""
    name, said = history["status"]["messages"][-1]
    assert name == "execution_error", history["status"]["messages"][-1]
    return said["exception_message"]


def paste(comfyui: ComfyUI, kind: str, text: str) -> dict[str, Any]:
    status, answer = comfyui.call(f"/headroom/pasted?kind={kind}&lang=en", text.encode())
    assert status == 200, answer
    return answer


# Loading


# What of the core ComfyUI's start may wait for: where things lie, and the words and choices that nodes offer.
CORE_AT_START = {"configs", "guard", "guard.labels", "media", "places"}


def test_comfyui_starts_with_next_to_nothing_of_the_core(comfyui: ComfyUI) -> None:
    times = []
    for _ in range(2):
        done = subprocess.run(
            [str(python()), "-c", MEASURE, str(comfyui.base)],
            cwd=source(),
            # Compiled modules are kept, as on a user's machine: the second start is the usual one.
            env={**os.environ, "PYTHONPATH": f"{source()}{os.pathsep}{STANDINS}", "PYTHONDONTWRITEBYTECODE": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        assert re.search(r"^nodes (.*)$", done.stdout, re.M).group(1).split() == NODES
        assert set(re.search(r"^core (.*)$", done.stdout, re.M).group(1).split()) <= CORE_AT_START
        times.append(tuple(map(float, re.search(r"^loaded True ([\d.]+) ([\d.]+)$", done.stdout, re.M).groups())))
    print("milliseconds of the processor, and on the clock of a machine that may be busy:", times)


def test_the_server_log_shows_no_trouble_of_ours(comfyui: ComfyUI) -> None:
    lines = [line for line in comfyui.log().splitlines() if "headroom" in line.lower()]
    assert lines
    assert not [line for line in lines if re.search(r"error|fail|warn|Traceback", line, re.I)]


@pytest.mark.parametrize("node", NODES)
def test_every_node_has_its_words_sockets_and_category(comfyui: ComfyUI, node: str) -> None:
    status, answer = comfyui.call(f"/object_info/{node}")
    info = answer[node]
    assert status == 200
    assert info["category"] == "AI Toolkit/Headroom"
    assert info["output_node"] is (node != "HeadroomApplyLoRA")  # which only passes on what it was given
    assert info["description"] and info["display_name"] != node
    for section in ("required", "optional"):
        for name, (_, options) in info["input"].get(section, {}).items():
            assert len(options["tooltip"]) > 10, name
    assert all(len(tooltip) > 10 for tooltip in info["output_tooltips"])


def test_sockets_are_typed(comfyui: ComfyUI) -> None:
    info = comfyui.call("/object_info")[1]
    assert info["HeadroomOOMClassifier"]["output"] == ["HEADROOM_JOB", "HEADROOM_DIAGNOSIS", "STRING", "BOOLEAN"]
    assert info["HeadroomOOMClassifier"]["input"]["optional"]["job"][0] == "HEADROOM_JOB"
    assert info["HeadroomSaveJob"]["input"]["required"]["job"][0] == "HEADROOM_JOB"
    assert info["HeadroomShowDiagnosis"]["input"]["required"]["diagnosis"][0] == "HEADROOM_DIAGNOSIS"


# Running


def test_the_example_workflow_corrects_and_saves_the_job(comfyui: ComfyUI) -> None:
    prompt = json.loads((ROOT / "demo" / "paste_a_failure.api.json").read_text(encoding="utf-8"))
    node = {each["class_type"]: number for number, each in prompt.items()}
    history = comfyui.run(prompt)
    diagnosis = result(history, node["HeadroomOOMClassifier"])
    saved = result(history, node["HeadroomSaveJob"])
    assert (diagnosis["cause"], diagnosis["stage"], diagnosis["advice"]) == ("vram", "train", "change_job")
    assert diagnosis["safe_to_retry"] is True
    assert diagnosis["changes"]
    written = (comfyui.base / "output" / saved["subfolder"] / saved["file"]).read_text(encoding="utf-8")
    assert written == diagnosis["yaml"] == saved["yaml"]
    failed = (SAMPLES / "train_step_out_of_memory.yaml").read_text(encoding="utf-8").splitlines()
    gone = [line[1:] for line in saved["diff"] if line.startswith("-")]
    assert gone and all(line in failed for line in gone)
    assert [line for line in failed if line not in gone] == [
        line for line in written.splitlines() if "+" + line not in saved["diff"]
    ]


def test_a_graph_of_one_reads_the_job_from_the_log(comfyui: ComfyUI) -> None:
    shown = result(comfyui.run(classify()))
    assert shown["stage"] == "train"
    assert shown["yaml"]
    assert shown["changes"][0]["line"]


def test_a_preview_failure_is_told_from_a_training_failure(comfyui: ComfyUI) -> None:
    shown = result(comfyui.run(classify(log="example: preview_out_of_memory.log")))
    assert shown["stage"] == "baseline_sample"
    assert shown["numbers"]["requested_gib"] == 3.1
    assert shown["changes"][0]["path"].startswith(("sample.", "train."))


def test_the_report_comes_in_chinese_when_asked(comfyui: ComfyUI) -> None:
    (panel,) = comfyui.run(classify(language="zh"))["outputs"]["1"]["headroom"]
    assert panel["lang"] == "zh"
    assert re.search("[\u4e00-\u9fff]", panel["summary"])
    assert re.search("[\u4e00-\u9fff]", panel["yaml"]), "the reasons in the YAML are in the report's language"


def test_auto_prepares_both_languages(comfyui: ComfyUI) -> None:
    panels = comfyui.run(classify(language="auto"))["outputs"]["1"]["headroom"]
    assert [panel["lang"] for panel in panels] == ["en", "zh"]


def test_a_locked_setting_is_left_alone(comfyui: ComfyUI) -> None:
    free = result(comfyui.run(classify(job_file=JOB)))["changes"][0]["path"]
    kept = result(comfyui.run(classify(job_file=JOB, locks=f"save, {free}")))
    assert free not in [change["path"] for change in kept["changes"]]


def test_a_connected_job_wins_over_the_file(comfyui: ComfyUI) -> None:
    prompt = classify(job=["2", 0], job_file="example: preview_out_of_memory.yaml")
    prompt["2"] = {"class_type": "HeadroomLoadJob", "inputs": {"job_file": JOB}}
    assert "# First try at a LoRA of our cat" in result(comfyui.run(prompt))["yaml"]


def test_the_diagnosis_can_be_shown_on_a_node_of_its_own(comfyui: ComfyUI) -> None:
    prompt = classify()
    prompt["2"] = {"class_type": "HeadroomShowDiagnosis", "inputs": {"diagnosis": ["1", 1], "language": "en"}}
    history = comfyui.run(prompt)
    assert result(history, "2")["summary"] == result(history)["summary"]


def test_a_loaded_job_shows_what_decides_its_memory(comfyui: ComfyUI) -> None:
    shown = result(comfyui.run({"1": {"class_type": "HeadroomLoadJob", "inputs": {"job_file": JOB}}}))
    facts = {path: value for path, value, _ in shown["facts"]}
    assert facts["train.batch_size"] == "4"
    assert facts["datasets[0].resolution"] == "[512, 768, 1024]"


def test_saving_never_overwrites_another_job(comfyui: ComfyUI) -> None:
    def save(job: str) -> str:
        return result(
            comfyui.run(
                {
                    "1": {"class_type": "HeadroomSaveJob", "inputs": {"job": ["2", 0], "name": "../mine: 1?"}},
                    "2": {"class_type": "HeadroomLoadJob", "inputs": {"job_file": job}},
                }
            )
        )["file"]

    first, again = save(JOB), save(JOB)
    other = save("example: preview_out_of_memory.yaml")
    assert first == again == "mine_ 1.yaml" and other == "mine_ 1-2.yaml"
    written = comfyui.base / "output" / "headroom"
    assert (written / first).read_bytes() == (SAMPLES / "train_step_out_of_memory.yaml").read_bytes()


# Caching


def cached(history: dict[str, Any]) -> list[str]:
    return next(data["nodes"] for name, data in history["status"]["messages"] if name == "execution_cached")


def test_an_unchanged_file_is_not_read_again_and_a_changed_one_is(comfyui: ComfyUI) -> None:
    log = comfyui.base / "input" / "run.log"
    log.write_bytes((SAMPLES / "train_step_out_of_memory.log").read_bytes())
    prompt = classify(log="run.log")
    assert cached(comfyui.run(prompt)) == []
    again = comfyui.run(prompt)
    assert cached(again) == ["1"]
    assert result(again)["stage"] == "train"
    log.write_bytes((SAMPLES / "preview_out_of_memory.log").read_bytes())
    assert result(comfyui.run(prompt))["stage"] == "baseline_sample"


# Wrong inputs


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"log": "(paste or choose a log)"}, "Paste log"),
        ({"log": "headroom/0123456789abcdef.log"}, "paste it again"),
        ({"log": "../custom_nodes/comfyui-headroom/pyproject.toml"}, "is not on this server"),
        ({"log": "example: ../../pyproject.toml"}, "is not on this server"),
        ({"log": "/etc/hostname"}, "is not on this server"),
        ({"job_file": "no.yaml"}, "is not on this server"),
        ({"exit_code": "killed"}, "exit_code is killed"),
        ({"strength": "everything"}, "choose one of next, safe"),
        ({"language": "fr"}, "choose one of auto, en, zh"),
        ({"locks": "]["}, "]["),
    ],
)
def test_a_wrong_input_is_named_with_the_way_out(comfyui: ComfyUI, inputs: dict[str, Any], said: str) -> None:
    assert said in error(comfyui.run(classify(**inputs)))


def test_an_exit_code_alone_can_tell_a_killed_process(comfyui: ComfyUI) -> None:
    shown = result(comfyui.run(classify(log="(paste or choose a log)", exit_code="137")))
    assert shown["summary"]


def test_saving_without_a_job_says_what_is_missing(comfyui: ComfyUI) -> None:
    (comfyui.base / "input" / "bare.log").write_text("RuntimeError: CUDA out of memory.\n")
    prompt = classify(log="bare.log")
    prompt["2"] = {"class_type": "HeadroomSaveJob", "inputs": {"job": ["1", 0]}}
    assert "no job is known" in error(comfyui.run(prompt))


def test_an_unreadable_job_is_named_with_its_line(comfyui: ComfyUI) -> None:
    (comfyui.base / "input" / "broken.yaml").write_text("job: extension\nconfig:\n  name: [x\n")
    said = error(comfyui.run({"1": {"class_type": "HeadroomLoadJob", "inputs": {"job_file": "broken.yaml"}}}))
    assert re.search(r"Line \d", said)


# Pasted text and secrets


def test_pasted_text_is_offered_and_read(comfyui: ComfyUI) -> None:
    name = paste(comfyui, "log", (SAMPLES / "preview_out_of_memory.log").read_text(encoding="utf-8"))["name"]
    offered = comfyui.call("/object_info/HeadroomOOMClassifier")[1]["HeadroomOOMClassifier"]["input"]["required"]["log"]
    assert name in offered[1]["options"]
    assert result(comfyui.run(classify(log=name)))["stage"] == "baseline_sample"


def test_masking_changes_nothing_that_the_diagnosis_reads(comfyui: ComfyUI) -> None:
    text = (SAMPLES / "preview_out_of_memory.log").read_text(encoding="utf-8")
    secret = text.replace("/workspace/", "/home/alice/").replace("Running 1 job", f"HF_TOKEN={TOKEN}\nRunning 1 job", 1)
    answer = paste(comfyui, "log", secret)
    shown = result(comfyui.run(classify(log=answer["name"])))
    plain = result(comfyui.run(classify(log="example: preview_out_of_memory.log")))
    assert len(answer["masked_lines"]) > 10
    for key in ("class", "cause", "stage", "advice", "confidence", "numbers", "steps", "changes", "summary"):
        assert shown[key] == plain[key], key
    assert shown["masked"] is True


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("job", "config: [", "line"),
        ("job", (SAMPLES / "preview_out_of_memory.log").read_text(encoding="utf-8"), "log"),
        ("log", " \n", "no text"),
        ("picture", "x", "log or job"),
    ],
)
def test_text_that_cannot_be_kept_is_refused_with_the_reason(comfyui: ComfyUI, kind: str, text: str, said: str) -> None:
    status, answer = comfyui.call(f"/headroom/pasted?kind={kind}&lang=en", text.encode())
    assert status == 400
    assert said in answer["problem"]


def test_the_refusal_comes_in_the_page_s_language(comfyui: ComfyUI) -> None:
    _, answer = comfyui.call("/headroom/pasted?kind=log&lang=zh", b" ")
    assert re.search("[\u4e00-\u9fff]", answer["problem"])


def test_another_site_cannot_paste(comfyui: ComfyUI) -> None:
    import urllib.error
    import urllib.request

    request = urllib.request.Request(
        f"{comfyui.url}/headroom/pasted?kind=log", b"x", {"Origin": "https://elsewhere.example"}
    )
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request)


def test_a_token_in_a_job_reaches_no_error_report(comfyui: ComfyUI) -> None:
    text = (SAMPLES / "train_step_out_of_memory.yaml").read_text(encoding="utf-8")
    (comfyui.base / "input" / "secret.yaml").write_text(text.replace("caption_ext: txt", f"note: {TOKEN}"))
    history = comfyui.run(
        {
            "1": {"class_type": "HeadroomLoadJob", "inputs": {"job_file": "secret.yaml"}},
            "2": {"class_type": "HeadroomOOMClassifier", "inputs": {"log": "gone.log", "job": ["1", 0]}},
        }
        if comfyui.call("/object_info/HeadroomOOMClassifier")[0] == 200
        else {}
    )
    said = history["status"]["messages"][-1][1]
    assert history["status"]["status_str"] == "error"
    assert TOKEN not in json.dumps(said)
    assert TOKEN not in json.dumps(history["outputs"]), "what the node shows is masked too"


def test_pasted_text_is_in_no_picture(comfyui: ComfyUI) -> None:
    marker = "Zq7 a line that stands in nothing but the pasted text"
    log = paste(comfyui, "log", marker + "\n" + (SAMPLES / "preview_out_of_memory.log").read_text(encoding="utf-8"))
    prompt = classify(log=log["name"])
    prompt["2"] = {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 0}}
    prompt["3"] = {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "picture"}}
    workflow = {"nodes": [{"id": 1, "type": "HeadroomOOMClassifier", "widgets_values": [log["name"]]}]}
    history = comfyui.run(prompt, extra_data={"extra_pnginfo": {"workflow": workflow}})
    picture = comfyui.base / "output" / history["outputs"]["3"]["images"][0]["filename"]
    data = picture.read_bytes()
    assert log["name"].encode() in data, "the name is there, so the metadata was written"
    assert b"Zq7" not in data and b"CUDA out of memory" not in data
    assert marker in (comfyui.base / "input" / log["name"]).read_text(encoding="utf-8")


def test_a_job_folder_of_ai_toolkits_ui_is_read_where_the_server_allows_it(comfyui: ComfyUI, tmp_path: Path) -> None:
    folder = tmp_path / "toolkit" / "output" / "cat_lora"
    folder.mkdir(parents=True)
    (folder / "log.txt").write_bytes((SAMPLES / "train_step_out_of_memory.log").read_bytes())
    (folder / ".job_config.json").write_text(
        '{"job": "extension", "config": {"name": "kept", "process": [{"type": "sd_trainer"}]}}'
    )
    settings = comfyui.base / "user" / "headroom.json"
    assert "is not on this server" in error(comfyui.run(classify(log="AI Toolkit: cat_lora")))
    settings.write_text(json.dumps({"HEADROOM_AI_TOOLKIT": str(tmp_path / "toolkit")}))
    try:
        assert result(comfyui.run(classify(log="AI Toolkit: cat_lora", locks="save")))["stage"] == "train"
        assert "is not on this server" in error(comfyui.run(classify(log="AI Toolkit: ../..")))
    finally:
        settings.unlink()


def test_help_pages_and_the_example_are_served(comfyui: ComfyUI) -> None:
    for node in NODES:
        for page in (f"{node}.md", f"{node}/zh.md"):
            assert comfyui.call(f"/extensions/comfyui-headroom/docs/{page}")[0] == 200
    names = comfyui.call("/workflow_templates")[1]["comfyui-headroom"]
    assert sorted(names) == sorted(path.stem for path in (ROOT / "example_workflows").glob("*.json"))
    for name in names:
        for ending in ("json", "jpg"):
            address = f"/api/workflow_templates/comfyui-headroom/{quote(name)}.{ending}"
            assert comfyui.call(address)[0] == 200, address


def test_a_refused_prompt_is_an_error_of_the_demo_too(comfyui: ComfyUI) -> None:
    with pytest.raises(ComfyUIFailure, match="refused"):
        comfyui.run({"1": {"class_type": "HeadroomSaveJob", "inputs": {}}})
