"""Jobs are read as the real AI Toolkit reads them: its loader, its config classes, its own example jobs."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headroom import configs
from headroom.job import JobError, previews, read_job, read_job_file, settings

pytestmark = pytest.mark.ai_toolkit
FOLDER = os.environ.get("HEADROOM_AI_TOOLKIT")
PYTHON = os.environ.get("HEADROOM_AI_TOOLKIT_PYTHON")
if not (FOLDER and PYTHON):
    pytest.skip("AI Toolkit; set HEADROOM_AI_TOOLKIT and HEADROOM_AI_TOOLKIT_PYTHON", allow_module_level=True)

KEYS = configs.load("job_keys")["keys"]
# What stands in the table although the classes hold something else under that name.
OUTSIDE_THE_CLASSES = {
    "datasets[].batch_size",  # the data loader falls back to the trainer's
    "datasets[].cache_latents_num_workers",  # fewer on a machine with fewer cores
    "sample.prompts",
    "sample.samples",
    "train.ema_config",
    "train.validation_config",
    "performance_log_every",
}


def ask(files: Sequence[Path] = (), processes: Sequence[dict[str, Any]] = ()) -> dict[str, list[Any]]:
    asked = json.dumps({"files": [str(file) for file in files], "processes": list(processes)})
    script = Path(__file__).with_name("ai_toolkit_reads.py")
    environment = {**os.environ, "HF_TOKEN": "secret", "NUMBER": "8"}
    done = subprocess.run(
        [str(PYTHON), str(script)],
        cwd=FOLDER,
        input=asked,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, list[Any]] = json.loads(done.stdout)
    return answer


ODD_TEXTS = {
    "floats.yaml": "[1e-4, 1E4, 1.5e4, 1.5e+4, .5, ._1, 1_0.5e1, 1:30.5, .inf, -.INF, 1., +1e-0, 1e, e5, -.5, .5e3, 1e4.0]",
    "words.yaml": "[yes, No, ON, off, y, n, true, TRUE, tRue, null, ~, Null, '', \"a\", 0o17, 017, 0x1F, 0b11, 1_000, 1:30]",
    "keys.yaml": "{1: a, '1': b, true: c, 'true': d, null: e, 1.5: f, on: g, 1e3: h}",
    "twice.yaml": "{a: 1, b: 2, a: 3}",
    "merge.yaml": "{base: &b {x: 1, y: {z: 2}}, more: &m {x: 5, w: 6}, one: {<<: *b, x: 3}, two: {x: 0, <<: [*m, *b]}}",
    "alias.yaml": "{a: &a [1, 2], b: *a, c: {d: *a}}",
    "name.yaml": '{path: "[name]/[name].txt", tag: [name]}',
    "blocks.yaml": "\n    a: |\n      one\n\n      two\n    b: >-\n      three\n      four\n    c: |+\n      five\n\n    d: 1",
    "tags.yaml": "[!!str 1, !!int '3', !!float 1, !!bool 'yes', ! x, !!null '']",
    "tab.yaml": "\n    a: 1\n    b:\t2",
    "tab_in_comment.yaml": "\n    a: 1 # x\ty\n    # \tz\n    b: 2",
    "date.yaml": "2024-01-01",
    "python.yaml": "!!python/tuple [1]",
    "brace.yaml": "[${NUMBER}, {a: ${NUMBER}}]",
    "recursive.yaml": "&a [*a]",
    "wrong.yaml": "[1, 2",
    "object.json": '{"a": [1, 2.5, -0, 1e5, true, null, NaN, -Infinity, "\\u00e9\\ud83d\\ude00\\n"], "a2": {"b": 1, "b": 2}}',
    "comment.json": "{} // no",
    "comma.json": '{"a": 1,}',
    "hash.jsonc": "{} # no",
}


def odd_file(folder: Path, name: str, value: str) -> Path:
    path = folder / name
    if path.suffix == ".yaml":
        text = f"job: extension\nconfig:\n  name: x\n  process:\n  - type: mod\n    value: {value}\n"
    else:
        text = f'{{"job": "extension", "config": {{"name": "x", "process": [{{"type": "mod", "value": {value}}}]}}}}'
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    odd = tmp_path_factory.mktemp("odd")
    examples = Path(FOLDER or "", "config", "examples")
    bom = odd / "bom.yaml"
    bom.write_bytes(
        b"\xef\xbb\xbfjob: mod\r\nconfig:\r\n  name: x\r\n  process:\r\n  - type: mod\r\n    a: 'b\r\n      c'\r\n"
    )
    bom_json = odd / "bom.json"
    bom_json.write_bytes(b'\xef\xbb\xbf{"job": "mod", "config": {"name": "x", "process": [{"type": "mod"}]}}')
    made = [odd_file(odd, name, value) for name, value in ODD_TEXTS.items()]
    found = [path for path in examples.rglob("*") if path.suffix in (".yaml", ".yml", ".json", ".jsonc")]
    assert len(found) > 20
    return [*sorted(found), *made, bom, bom_json]


def filled(data: Any) -> Any:
    """Parsed data with the placeholders replaced by what AI Toolkit was given, as it does in the text."""
    if isinstance(data, dict):
        return {key: filled(value) for key, value in data.items()}
    if isinstance(data, list):
        return [filled(item) for item in data]
    if data == "${NUMBER}":
        return 8
    return re.sub(r"\$\{HF_TOKEN\}", "secret", data) if isinstance(data, str) else data


def test_every_file_reads_as_its_own_loader_reads_it(files: list[Path]) -> None:
    read = refused = 0
    for path, theirs in zip(files, ask(files)["files"], strict=True):
        try:
            ours = filled(read_job_file(path).data)
        except JobError as error:
            assert "error" in theirs, f"{path.name}: only we refuse it: {error}"
            refused += 1
            continue
        assert "error" not in theirs, f"{path.name}: only AI Toolkit refuses it: {theirs['error']}"
        assert repr(ours) == repr(json.loads(json.dumps(theirs))), path.name
        read += 1
    print(f"{read} files read alike, {refused} refused alike")


def written_value(key: str, about: dict[str, Any], rng: random.Random) -> Any:
    if about["type"] == "bool":
        return rng.choice([True, False, 1, 0, "false", ""])
    if about["type"] in ("int", "number", "size"):
        return rng.choice([1, 2, 4, 512, 1024])
    if about["type"] == "float":
        return rng.choice([0.05, 1, "0.1"])
    if about["type"] == "map":
        return {}
    if about["type"] == "list":
        return rng.choice([[], ["ColorJitter"]]) if key.startswith("datasets[].aug") else []
    if key == "model.qtype":
        return rng.choice(["qfloat8", "uint4", "uint4|some/adapter.safetensors"])
    if key == "model.qtype_te":
        return rng.choice(["qfloat8", "uint4"])
    if key == "save.save_format":
        return "diffusers"
    if key == "network.type":
        return "lora"
    if key == "model.arch":
        return rng.choice(["flux", "flex1", "wan22_14b:t2v", "zimage", "sdxl"])
    return rng.choice(["bf16", "other"])


def random_process(rng: random.Random) -> dict[str, Any]:
    """A process that writes a few of the table's keys, old spellings and flags."""
    process: dict[str, Any] = {"type": "sd_trainer", "datasets": [{} for _ in range(rng.randrange(3))]}
    for key, about in KEYS.items():
        if rng.random() > 0.2 or key in ("train.validation_config", "sample.samples", "sample.prompts"):
            continue
        if key in ("model.attn_masking", "model.split_model_over_gpus", "train.gradient_accumulation_steps"):
            continue  # refused but for one architecture, or beside another key
        section, _, name = key.partition("[].")
        value = written_value(key, about, rng)
        if about.get("on_null") and rng.random() < 0.2:
            value = None
        if section == "datasets":
            for dataset in process["datasets"]:
                if rng.random() < 0.7:
                    dataset[name] = value
        elif not name:
            *parents, last = key.split(".")
            at = process
            for parent in parents:
                at[parent] = at.get(parent) or {}
                at = at[parent]
            at[last] = value
    for other in configs.load("job_keys")["other_spellings"]:
        if rng.random() < 0.2:
            section, name = other.split(".")
            process.setdefault(section, {})[name] = rng.choice([16, None]) if name == "rank" else True
    process.setdefault("model", {})["name_or_path"] = "a/b"
    if rng.random() < 0.5:
        process["model"].pop("arch", None)
    prompts = rng.choice([[], ["a cat", "a dog --w 512 --h 250 --frames 9"], ["x --num_frames 5 --steps 4", "--h 20"]])
    sample = process.setdefault("sample", {})
    if rng.random() < 0.5:
        sample["prompts"] = prompts
    if rng.random() < 0.5:
        sizes = [{}, {"width": 770, "num_frames": 3}, {"height": 33}]
        sample["samples"] = [{"prompt": prompt, **rng.choice(sizes)} for prompt in prompts]
        if sample["samples"] and rng.random() < 0.5:
            sample["samples"].insert(0, {"width": 999})
    return process


def test_settings_are_what_its_config_classes_hold() -> None:
    rng = random.Random(20260821)
    bare: dict[str, Any] = {"type": "sd_trainer", "model": {"name_or_path": "a/b"}, "network": {}, "datasets": [{}]}
    bare["sample"] = {"samples": [{"prompt": "a cat"}]}
    processes = [bare, *(random_process(rng) for _ in range(400))]
    answers = ask(processes=processes)["processes"]
    compared = refused = 0
    for process, theirs in zip(processes, answers, strict=True):
        if "error" in theirs:
            refused += 1
            continue
        job = read_job(json.dumps({"job": "extension", "config": {"name": "x", "process": [process]}}))
        ours = settings(job)
        for key in KEYS.keys() - OUTSIDE_THE_CLASSES:
            section, _, name = key.rpartition(".")
            if section.endswith("[]"):
                holders = theirs[section.removesuffix("[]")]
                if section == "sample.samples[]" and "samples" not in process["sample"]:
                    continue
            else:
                holders = [theirs[section]]
            for index, holder in enumerate(holders):
                if holder is None or name not in holder:
                    assert holder is None or name == "is_pixart", f"{key} is no attribute of AI Toolkit's class"
                    continue
                mine = ours.get(key.replace("[]", f"[{index}]"))
                other = holder[name]
                if KEYS[key]["type"] == "bool":
                    other = bool(other)
                if key == "model.qtype":
                    mine = mine.split("|")[0] if mine is not None else None
                if key == "model.accuracy_recovery_adapter" and "|" in str(ours.get("model.qtype")):
                    mine = ours.get("model.qtype").split("|")[1]
                if key == "model.arch":
                    mine = ours.base_architecture
                if key.startswith("model.is_"):
                    other = bool(process["model"].get(name))  # the class sets more flags from the architecture
                assert (mine, type(mine)) == (other, type(other)), f"{key} in {process}"
                compared += 1
        made = [[preview.width, preview.height, preview.num_frames] for preview in previews(ours)]
        assert made == theirs["previews"], process["sample"]
    print(f"{compared} values compared in {len(processes) - refused} processes, {refused} refused by AI Toolkit")
    assert refused < len(processes) / 10
