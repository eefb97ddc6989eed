"""A job out of somebody else's workflow writes, reads, sends and runs nothing that the server's owner does not allow."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from mutations import mutated

from headroom.contracts import Job
from headroom.job import JobError, read_job
from headroom.job.stranger import LONGEST_NAME, Rules, Vetted, vet
from headroom.report.wording import LANGUAGES, words

SECRET = "hf_do_not_tell"


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    for folder in ("input/cats", "models", "elsewhere", "ai-toolkit/output/other", "runs/r1"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "elsewhere" / "private.png").write_bytes(b"mine")
    (tmp_path / "ai-toolkit" / "output" / "other" / "theirs.safetensors").write_bytes(b"theirs")
    (tmp_path / "models" / "base.safetensors").write_bytes(b"")
    return Rules(tmp_path / "runs" / "r1", (tmp_path / "input", tmp_path / "models"), tmp_path / "ai-toolkit")


def data(rules: Rules) -> dict[str, Any]:
    """A job that is safe as it is."""
    process = {
        "type": "sd_trainer",
        "training_folder": str(rules.output),
        "trigger_word": "/imagine a cat",
        "network": {"type": "lora", "linear": 4},
        "save": {"save_every": 250},
        "datasets": [{"folder_path": str(rules.reads[0] / "cats"), "caption_ext": "txt", "resolution": [512]}],
        "train": {"steps": 10, "dtype": "bf16", "negative_prompt": "blurry, ugly"},
        "model": {"name_or_path": "black-forest-labs/FLUX.1-dev", "arch": "flux", "qtype": "qfloat8"},
        "sample": {"prompts": ["a [trigger] cat -- or not", "../ is fine in prose", "a cat --w 512"], "neg": "~ bad"},
    }
    return {
        "job": "extension",
        "config": {"name": "my cat v1.2", "process": [process]},
        "meta": {"version": "1.0", "website": "https://example.org"},
    }


def put(job: Any, path: str, value: Any) -> Any:
    """Sets ``train.dtype`` in the first process, or ``/config.name`` from the top."""
    at = job if path.startswith("/") else job["config"]["process"][0]
    *way, last = [int(step) if step.isdecimal() else step for step in re.split(r"[./]", path.removeprefix("/"))]
    for step in way:
        at = at[step] if isinstance(at, list) else at.setdefault(step, {})
    at[last] = value
    return job


def job_of(content: Any) -> Job:
    return read_job(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), "job.yaml")


def reasons(vetted: Vetted) -> list[str]:
    """The keys of the refusals; each has words in both languages and tells no secret."""
    for sentence in vetted.refusals:
        said = {words(sentence, lang) for lang in LANGUAGES}
        assert len(said) == len(LANGUAGES) and not any(SECRET in text for text in said)
    assert (vetted.job is None) == bool(vetted.refusals)
    return [sentence.key.removeprefix("stranger.") for sentence in vetted.refusals]


def judged(rules: Rules, path: str, value: Any) -> list[str]:
    job = read_job(json.dumps(put(data(rules), path, value)), "job.json")
    return reasons(vet(job, rules, {"HF_TOKEN": SECRET}))


def test_a_safe_job_is_left_as_it_is(rules: Rules) -> None:
    job = job_of(data(rules))
    assert vet(job, rules) == Vetted(job)


# -- where it writes


@pytest.mark.parametrize(
    "folder",
    ["/etc", "../../x", "output", "~/x", "C:\\Users\\x", "\\\\server\\share", "//server/share", "", None, 3, {"a": 1}],
)
def test_it_writes_into_its_own_run_folder_whatever_it_says(rules: Rules, folder: object) -> None:
    job = job_of(put(data(rules), "training_folder", folder))
    vetted = vet(job, rules)
    assert vetted.job is not None
    assert vetted.job.data["config"]["process"][0]["training_folder"] == str(rules.output)
    (change,) = vetted.changes
    assert (change.path, change.old, change.new) == ("training_folder", folder, str(rules.output))
    assert all(words(each, lang) for each in (change.reason, change.price, change.where) for lang in LANGUAGES)


def test_a_job_that_names_no_folder_gets_its_own(rules: Rules) -> None:
    content = data(rules)
    del content["config"]["process"][0]["training_folder"]
    vetted = vet(job_of(content), rules)
    assert vetted.job is not None and vetted.job.data["config"]["process"][0]["training_folder"] == str(rules.output)


def test_logs_and_databases_lie_there_too(rules: Rules) -> None:
    content = put(put(data(rules), "log_dir", "/var/log"), "sqlite_db_path", "/home/me/aitk_db.db")
    vetted = vet(job_of(content), rules)
    assert vetted.job is not None
    process = vetted.job.data["config"]["process"][0]
    assert process["log_dir"] == str(rules.output / "tensorboard")
    assert process["sqlite_db_path"] == str(rules.output / "aitk_db.db")
    assert [change.path for change in vetted.changes] == ["log_dir", "sqlite_db_path"]


def test_a_process_cannot_take_another_name(rules: Rules) -> None:
    vetted = vet(job_of(put(data(rules), "name", "../../elsewhere")), rules)
    assert vetted.job is not None and vetted.job.data["config"]["process"][0]["name"] == "my cat v1.2"
    assert [change.reason.key for change in vetted.changes] == ["stranger.process_name"]


@pytest.mark.parametrize(
    "name",
    ["../x", "..", ".", "a/b", "a\\b", "/etc/x", "~x", "C:x", "a\nb", "a\0b", "con", "NUL.txt", "x.", " x", "x ", "-rf", "a" * (LONGEST_NAME + 1), "猫" * 99, 'x", "training_folder": "/etc', "a|b", "a*b", "a\ud800"],
)  # fmt: skip
def test_a_name_that_is_no_folders_name_is_refused(rules: Rules, name: str) -> None:
    assert judged(rules, "/config.name", name) == ["name"]


@pytest.mark.parametrize("name", ["my_lora", "my lora 2", "v1.2-beta", "猫", "a" * LONGEST_NAME, "cön", "[x] (y)"])
def test_an_ordinary_name_is_taken(rules: Rules, name: str) -> None:
    assert judged(rules, "/config.name", name) == []


def test_the_name_tag_is_read_as_ai_toolkit_fills_it_in(rules: Rules) -> None:
    content = put(data(rules), "datasets.0.folder_path", f"{rules.reads[0]}/[name]")
    assert reasons(vet(job_of(content), rules)) == []
    content = put(put(data(rules), "train.dtype", "[name]/../../x"), "/config.name", "cat")
    assert reasons(vet(job_of(content), rules)) == ["elsewhere"]


# -- what it reads


READS = [
    "datasets.0.folder_path",
    "datasets.0.dataset_path",
    "datasets.0.control_path",
    "datasets.0.control_path_2",
    "datasets.0.mask_path",
    "datasets.0.inpaint_path",
    "datasets.0.unconditional_path",
    "datasets.0.clip_image_path",
    "datasets.0.random_triggers",
    "model.name_or_path",
    "model.te_name_or_path",
    "model.refiner_name_or_path",
    "model.extras_name_or_path",
    "model.vae_path",
    "model.unet_path",
    "model.lora_path",
    "model.assistant_lora_path",
    "model.inference_lora_path",
    "model.unconditional_lora_path",
    "model.accuracy_recovery_adapter",
    "model.model_paths.transformer",
    "network.pretrained_lora_path",
    "adapter.name_or_path",
    "adapter.image_encoder_path",
    "adapter.text_encoder_path",
    "adapter.test_img_path",
    "train.adapter_assist_name_or_path",
    "train.latent_feature_extractor_path",
    "train.diffusion_feature_extractor_path",
    "train.negative_prompt",
    "slider.prompt_file",
    "slider.prompt_tensors",
    "slider.adapter_img_dir",
    "first_sample.ctrl_img",
    "future_section.new_thing_path",
    "future_section.anything",
    "/other.thing",
    "/config.anything",
]
OUTSIDE = [
    "{elsewhere}/private.png",
    "../elsewhere/private.png",
    "{input}/../elsewhere",
    "{input}/cats/../../elsewhere",
    "~/.ssh/id_rsa",
    "\\\\server\\share\\x",
    "//server/share/x",
    "/\\server\\share",
    "C:\\Users\\me\\x.png",
    "C:x.png",
    "/proc/self/environ",
    "..\\..\\x",
    "https://example.org/x.safetensors",
    "file:///etc/passwd",
    "\\\\?\\C:\\x",
]


@pytest.mark.parametrize("path", READS)
def test_a_path_outside_is_refused_wherever_it_stands(rules: Rules, tmp_path: Path, path: str) -> None:
    for value in (str(tmp_path / "elsewhere" / "private.png"), "../elsewhere/private.png"):
        assert judged(rules, path, value) == ["elsewhere"]


@pytest.mark.parametrize("value", OUTSIDE)
@pytest.mark.parametrize(
    "path", ["datasets.0.folder_path", "model.vae_path", "train.negative_prompt", "future.new_path"]
)
def test_a_path_outside_is_refused_however_it_is_written(rules: Rules, tmp_path: Path, path: str, value: str) -> None:
    value = value.format(elsewhere=tmp_path / "elsewhere", input=rules.reads[0])
    assert judged(rules, path, value) in (["elsewhere"], ["network"])


@pytest.mark.parametrize(
    "path", ["datasets.0.control_path", "datasets.0.inpaint_path", "future.folders", "adapter.test_img_path"]
)
def test_in_a_list_of_paths_each_is_judged(rules: Rules, path: str) -> None:
    inside = str(rules.reads[0] / "a")
    assert judged(rules, path, [inside, "/etc"]) == ["elsewhere"]
    assert judged(rules, path, [["/etc"], {"x": "/etc"}]) == ["elsewhere"] * 2
    assert judged(rules, path, [inside]) == []


def test_the_other_pictures_of_a_preview_are_judged(rules: Rules) -> None:
    for key in ("ctrl_img", "ctrl_img_1", "ctrl_img_3"):
        assert judged(rules, "sample.samples", [{"prompt": "x"}, {"prompt": "y", key: "/etc/x.png"}]) == ["elsewhere"]


def test_another_machine_is_never_asked(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(path: object, **_: object) -> str:
        assert "server" not in str(path)
        return str(path)

    monkeypatch.setattr(os.path, "realpath", touched)
    for value in ("\\\\server\\share", "//server/share", "/\\server\\share"):
        assert judged(rules, "model.name_or_path", value) == ["network"]


@pytest.mark.parametrize("value", ["output/other/theirs.safetensors", "output", "output/other", "./output"])
@pytest.mark.parametrize(
    "path", ["model.name_or_path", "datasets.0.folder_path", "train.negative_prompt", "model.vae_path"]
)
def test_what_lies_in_ai_toolkits_own_folder_is_not_read(rules: Rules, path: str, value: str) -> None:
    assert judged(rules, path, value) == ["elsewhere"]


@pytest.mark.parametrize("value", ["author/repository", "gpt2", "author/repo/file.safetensors", "Qwen/Qwen-Image_v2.1"])
def test_a_model_may_come_from_hugging_face_but_a_dataset_may_not(rules: Rules, value: str) -> None:
    assert judged(rules, "model.name_or_path", value) == []
    assert judged(rules, "datasets.0.folder_path", value) == ["elsewhere"]


def test_what_lies_inside_is_read(rules: Rules) -> None:
    assert judged(rules, "model.name_or_path", str(rules.reads[1] / "base.safetensors")) == []
    assert judged(rules, "datasets.0.control_path", [str(rules.reads[0] / "a"), str(rules.reads[0] / "b")]) == []
    assert judged(rules, "network.pretrained_lora_path", str(rules.output / "lora.safetensors")) == []


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_link_is_judged_by_where_it_leads(rules: Rules, tmp_path: Path) -> None:
    (rules.reads[0] / "out").symlink_to(tmp_path / "elsewhere")
    (rules.reads[0] / "in").symlink_to(rules.reads[0] / "cats")
    (tmp_path / "also").symlink_to(rules.reads[0])
    assert judged(rules, "datasets.0.folder_path", str(rules.reads[0] / "out")) == ["elsewhere"]
    assert judged(rules, "model.vae_path", str(rules.reads[0] / "out" / "private.png")) == ["elsewhere"]
    assert judged(rules, "datasets.0.folder_path", str(rules.reads[0] / "in")) == []
    named = put(put(data(rules), "/config.name", "out"), "datasets.0.folder_path", f"{rules.reads[0]}/[name]")
    assert reasons(vet(job_of(named), rules)) == ["elsewhere"]
    linked = Rules(rules.output, (tmp_path / "also",), rules.base)  # the owner may allow a folder by its link
    assert judged(linked, "datasets.0.folder_path", str(tmp_path / "also" / "cats")) == []


def test_a_folder_whose_name_only_begins_alike_is_another(rules: Rules) -> None:
    assert judged(rules, "datasets.0.folder_path", f"{rules.reads[0]}-private") == ["elsewhere"]


def test_a_home_folder_is_never_read_even_where_ai_toolkits_own_folder_may_be(rules: Rules) -> None:
    allowing = Rules(rules.output, (*rules.reads, rules.base), rules.base)
    assert judged(allowing, "model.name_or_path", "output/other/theirs.safetensors") == []
    assert judged(allowing, "model.name_or_path", "~/model.safetensors") == ["elsewhere"]


def test_a_list_in_a_text_is_judged_item_by_item(rules: Rules, tmp_path: Path) -> None:
    value = f"{rules.reads[0]}/a.png, {tmp_path}/elsewhere/private.png"
    assert judged(rules, "adapter.test_img_path", value) == ["elsewhere"]
    assert judged(rules, "adapter.test_img_path", f"{rules.reads[0]}/a.png,{rules.reads[0]}/b.png") == []


@pytest.mark.parametrize("flag", ["ctrl_img", "ctrl_img_2"])
def test_a_flag_in_a_prompt_that_reads_a_file_is_judged(rules: Rules, flag: str) -> None:
    for path, value in (
        ("sample.prompts", [f"a cat --w 512 --{flag} /etc/passwd"]),
        ("sample.samples", [{"prompt": f"a cat --{flag}  ../elsewhere/private.png --h 512"}]),
    ):
        assert judged(rules, path, value) == ["elsewhere"]
    assert judged(rules, "sample.prompts", [f"a cat --{flag} {rules.reads[0]}/a.png"]) == []


def test_a_prompt_in_another_shape_is_judged_too(rules: Rules) -> None:
    flagged = "a cat --ctrl_img /etc/passwd"
    assert judged(rules, "first_sample", {"prompts": {flagged: 1}}) == ["elsewhere"]  # AI Toolkit would take the key
    assert judged(rules, "first_sample", {"prompts": [flagged]}) == ["elsewhere"]


@pytest.mark.parametrize(
    ("trigger", "prompt"),
    [
        ("ctrl_img /etc/passwd", "a --[trigger]"),
        ("img /etc/passwd", "a --ctrl_[trigger]"),
        ("-ctrl_img /etc/passwd", "a -[trigger]"),
        ("x --ctrl_img /etc/passwd", "a cat"),
        ("x -", "[trigger]-ctrl_img /etc/passwd"),
        ("", "a -[trigger]-ctrl_img /etc/passwd"),
        ("", "a -[tri[trigger]gger]-ctrl_img /etc/passwd"),
        ("x", "a --ctrl_img [trigger]"),
    ],
)
def test_a_trigger_word_cannot_make_a_flag_of_a_prompt(rules: Rules, trigger: str, prompt: str) -> None:
    content = put(put(data(rules), "sample.prompts", [prompt]), "trigger_word", trigger)
    assert set(reasons(vet(job_of(content), rules))) & {"flag", "elsewhere"}


@pytest.mark.parametrize(
    ("trigger", "prompt"),
    [("my-style", "[trigger]-style cat --w 512"), ("[V] dog", "a [trigger] -- no [x]"), ("", "a [trigger], well-lit")],
)
def test_ordinary_triggers_and_prompts_are_taken(rules: Rules, trigger: str, prompt: str) -> None:
    content = put(put(data(rules), "sample.prompts", [prompt]), "trigger_word", trigger)
    assert reasons(vet(job_of(content), rules)) == []


def test_an_adapter_named_behind_a_quantization_is_judged(rules: Rules) -> None:
    assert judged(rules, "model.qtype", "uint3|ostris/adapters/x.safetensors") == []
    assert judged(rules, "model.qtype", "uint3|/etc/x.safetensors") == ["elsewhere"]
    assert judged(rules, "model.qtype_te", "uint3|ostris/adapters/x.pt") == ["pickle"]


def test_a_file_that_lists_files_is_no_dataset(rules: Rules) -> None:
    listing = rules.reads[0] / "list.json"
    listing.write_text('{"/home/me/private.png": {}}', encoding="utf-8")
    assert judged(rules, "datasets.0.dataset_path", str(listing)) == ["list_of_files"]
    assert judged(rules, "datasets.0.folder_path", str(listing)) == ["list_of_files"]


@pytest.mark.parametrize("ending", ["ckpt", "pt", "PTH", "bin", "pkl"])
def test_weights_in_which_code_can_hide_are_refused(rules: Rules, ending: str) -> None:
    for path in ("model.name_or_path", "network.pretrained_lora_path", "adapter.name_or_path"):
        assert judged(rules, path, str(rules.reads[0] / f"uploaded.{ending}")) == ["pickle"]
        assert judged(rules, path, f"author/repository/x.{ending}") == ["pickle"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_link_does_not_hide_such_weights(rules: Rules) -> None:
    (rules.reads[0] / "x.PT").write_bytes(b"")
    (rules.reads[0] / "x.safetensors").symlink_to(rules.reads[0] / "x.PT")
    assert judged(rules, "model.vae_path", str(rules.reads[0] / "x.safetensors")) == ["pickle"]


@pytest.mark.parametrize(
    "path", ["sample.format", "save.dtype", "datasets.0.caption_ext", "embedding.trigger", "model.arch"]
)
def test_a_text_that_becomes_part_of_a_file_name_cannot_leave_its_folder(rules: Rules, path: str) -> None:
    assert judged(rules, path, "/../../elsewhere/x") == ["elsewhere"]
    assert judged(rules, path, "x/../../elsewhere/x") == ["elsewhere"]


def test_a_long_text_and_a_zero_byte_are_no_reason_to_break(rules: Rules) -> None:
    assert judged(rules, "train.negative_prompt", "blurry, " * 2000) == []
    assert judged(rules, "train.negative_prompt", "a\0b") == []
    assert judged(rules, "datasets.0.folder_path", f"{rules.reads[0]}/a\0b") == ["elsewhere"]


def test_a_key_that_is_a_path_is_refused(rules: Rules) -> None:
    assert judged(rules, "model.model_paths", {"/etc/passwd": "author/repository"}) == ["elsewhere"]


# -- what it is filled with


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("trigger_word", "${HF_TOKEN}"),
        ("/config.name", "x ${HF_TOKEN}"),
        ("training_folder", "/x/${HF_TOKEN}"),
        ("sample.prompts", ["a ${HF_TOKEN}"]),
        ("save.hf_repo_id", "me/${HF_TOKEN}"),
        ("/meta.note", "${HF_TOKEN}"),
        ("train.dtype", "${HF_TOKEN }"),
        ("train.dtype", "${${HF_TOKEN}"),
        ("model.model_kwargs", {"${HF_TOKEN}": 1}),
        ("/config.${HF_TOKEN}", 1),
    ],
)
def test_no_variable_is_filled_in_wherever_it_is_asked_for(rules: Rules, path: str, value: object) -> None:
    assert judged(rules, path, value) == ["variable"]


def test_a_variable_in_a_comment_is_filled_in_too_and_refused(rules: Rules) -> None:
    text = yaml.safe_dump(data(rules)) + "# ${HF_TOKEN}\n"
    vetted = vet(read_job(text), rules, {"HF_TOKEN": SECRET})
    assert reasons(vetted) == ["variable"]
    assert f"Line {len(text.splitlines())} " in words(vetted.refusals[0])


@pytest.mark.parametrize("syntax", ["yaml", "json"])
def test_a_variable_hidden_by_escapes_is_refused(rules: Rules, syntax: str) -> None:
    text = json.dumps(put(data(rules), "trigger_word", "DOLLAR{HF_TOKEN}")).replace("DOLLAR", "\\u0024")
    job = read_job(text, f"job.{syntax}")
    assert job.data["config"]["process"][0]["trigger_word"] == "${HF_TOKEN}"
    assert reasons(vet(job, rules, {"HF_TOKEN": SECRET})) == ["variable_hidden"]


def test_an_allowed_variable_is_filled_in_and_what_it_makes_is_judged(rules: Rules, tmp_path: Path) -> None:
    allowing = Rules(rules.output, rules.reads, rules.base, variables=frozenset({"DATA"}))
    job = job_of(put(data(rules), "datasets.0.folder_path", "${DATA}/cats"))
    inside = vet(job, allowing, {"DATA": str(rules.reads[0])})
    assert inside == Vetted(job)  # the placeholder stays as it is written
    assert reasons(vet(job, allowing, {"DATA": str(tmp_path / "elsewhere")})) == ["elsewhere"]
    assert reasons(vet(job, allowing, {})) == ["variable_unset"]
    assert reasons(vet(job, rules, {"DATA": str(rules.reads[0])})) == ["variable"]


def test_a_job_that_stays_unsafe_once_changed_is_refused(rules: Rules) -> None:
    allowing = Rules(rules.output, rules.reads, rules.base, variables=frozenset({"KEY"}))
    job = job_of(put(data(rules), "${KEY}", "/etc"))
    assert reasons(vet(job, allowing, {"KEY": "training_folder"})) == ["unsure"]


# -- what it sends


def test_nothing_is_uploaded_or_reported_unless_allowed(rules: Rules) -> None:
    content = put(data(rules), "save", {"push_to_hub": True, "hf_repo_id": "thief/stolen"})
    content = put(content, "logging", {"use_wandb": "yes", "project_name": "p", "wandb_api_key": "0" * 40})
    vetted = vet(job_of(content), rules)
    assert vetted.job is not None
    process = vetted.job.data["config"]["process"][0]
    assert process["save"]["push_to_hub"] is False and process["logging"]["use_wandb"] is False
    assert [(change.path, change.reason.key) for change in vetted.changes] == [
        ("save.push_to_hub", "stranger.push"),
        ("logging.use_wandb", "stranger.track"),
    ]
    allowing = Rules(rules.output, rules.reads, rules.base, push=True, track=True)
    assert vet(job_of(content), allowing).changes == ()


# -- what it runs


@pytest.mark.parametrize(
    "kind", ["dataset_tools", "super_tagger", "my_extension", "Qwen3VLCaptioner", "SD_TRAINER", "vae"]
)
def test_other_code_is_not_run_unless_allowed(rules: Rules, kind: str) -> None:
    assert judged(rules, "type", kind) == ["type"]
    allowing = Rules(rules.output, rules.reads, rules.base, process_types=frozenset({kind}))
    assert judged(allowing, "type", kind) == []


@pytest.mark.parametrize("kind", ["generate", "extract", "mod", "train"])
def test_other_kinds_of_jobs_are_not_run(rules: Rules, kind: str) -> None:
    assert judged(rules, "/job", kind) == ["kind"]


@pytest.mark.parametrize("key", ["model.model_kwargs.trust_remote_code", "model.custom_pipeline", "/config.extensions"])
def test_keys_that_load_code_are_refused(rules: Rules, key: str) -> None:
    assert judged(rules, key, "author/repository") == ["loads_code"]
    assert judged(rules, key, True) == ["loads_code"]
    assert judged(rules, key, False) == []


# -- however it is written


def test_every_process_is_judged(rules: Rules) -> None:
    content = data(rules)
    second = json.loads(json.dumps(content["config"]["process"][0]))
    second |= {"training_folder": "/etc", "save": {"push_to_hub": True}}
    content["config"]["process"].append(second)
    vetted = vet(job_of(content), rules)
    assert [change.path for change in vetted.changes] == ["process[1].training_folder", "process[1].save.push_to_hub"]
    assert vetted.job is not None and vetted.job.data["config"]["process"][1]["training_folder"] == str(rules.output)
    second |= {"type": "evil", "model": {"name_or_path": "/etc/x"}}
    vetted = vet(job_of(content), rules)
    assert reasons(vetted) == ["type", "elsewhere"]
    assert [dict(sentence.values)["path"] for sentence in vetted.refusals] == [
        "process[1].type",
        "process[1].model.name_or_path",
    ]


def test_what_anchors_and_merges_bring_is_judged_and_changed(rules: Rules) -> None:
    text = f"""job: extension
config:
  name: cat
  process:
    - &first
      type: sd_trainer
      training_folder: &out /etc/cron.d
      save: &save {{push_to_hub: true, save_every: 10}}
      trigger_word: *out
      datasets: [{{folder_path: {json.dumps(str(rules.reads[0]))}}}]
      model: {{name_or_path: author/model}}
    - <<: *first
      type: diffusion_trainer
"""
    vetted = vet(read_job(text), rules)
    assert vetted.job is not None
    first, second = vetted.job.data["config"]["process"]
    for process in (first, second):
        assert process["training_folder"] == str(rules.output) and process["save"]["push_to_hub"] is False
        assert process["trigger_word"] == "/etc/cron.d"  # prose, which names no file
    assert second["type"] == "diffusion_trainer" and second["save"]["save_every"] == 10
    hidden = text.replace("author/model", "*out")
    assert reasons(vet(read_job(hidden), rules)) == ["elsewhere", "elsewhere"]


def test_of_a_key_written_twice_the_one_that_counts_is_judged(rules: Rules) -> None:
    text = json.dumps(data(rules))
    twice = text.replace('"training_folder":', '"training_folder": "/etc", "training_folder":')
    assert vet(read_job(twice, "job.json"), rules).changes == ()
    last = text.replace('"trigger_word":', '"training_folder": "/etc", "trigger_word":')
    vetted = vet(read_job(last, "job.json"), rules)
    assert vetted.job is not None and vetted.job.data["config"]["process"][0]["training_folder"] == str(rules.output)


def test_all_that_stands_against_a_job_is_said_at_once(rules: Rules) -> None:
    content = put(put(put(data(rules), "type", "evil"), "/job", "mod"), "model.vae_path", "/etc/x")
    assert reasons(vet(job_of(content), rules)) == ["kind", "type", "elsewhere"]


def test_judged_again_a_safe_job_needs_nothing(rules: Rules) -> None:
    content = put(put(data(rules), "training_folder", "/etc"), "save.push_to_hub", True)
    once = vet(job_of(content), rules)
    assert once.job is not None and once.changes
    assert vet(once.job, rules) == Vetted(once.job)
    lines = yaml.safe_dump(content, sort_keys=False, allow_unicode=True).splitlines()
    differing = [line for line in once.job.text.splitlines() if line not in lines]
    assert len(differing) == len(once.changes)


def test_a_damaged_job_is_made_safe_or_refused_and_nothing_breaks(rules: Rules) -> None:
    allowing = Rules(rules.output, rules.reads, rules.base, variables=frozenset({"A"}))
    content = put(put(data(rules), "training_folder", "/etc/${A}"), "save.push_to_hub", True)
    text = yaml.safe_dump(content, sort_keys=False).encode()
    judged = safe = 0
    for seed in range(250):
        rng = random.Random(seed)
        try:
            job = read_job(mutated(text, rng).decode("utf-8", "replace"))
        except JobError:
            continue
        vetted = vet(job, allowing, {"A": rng.choice(["v", '"', "\n- x", "{", "[name]", "a: b"])})
        judged += 1
        if vetted.job is not None:
            safe += 1
            assert {process["training_folder"] for process in vetted.job.data["config"]["process"]} == {
                str(rules.output)
            }
    assert judged > 20 and safe > 5


def test_a_refusal_shows_no_more_than_a_line(rules: Rules) -> None:
    vetted = vet(job_of(put(data(rules), "model.name_or_path", "/etc/\n\x1b[31m" + "x" * 5000)), rules)
    assert reasons(vetted) == ["elsewhere"]
    value = dict(vetted.refusals[0].values)["value"]
    assert len(value) <= 80 and value.isprintable()
