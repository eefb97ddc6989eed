"""A job built from choices is what AI Toolkit's own form would have made of them, and is safe on a server."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from job_shapes import ARCHITECTURES
from record_ui_jobs import RECORDED, digest
from tiny_pictures import png

from headroom import configs
from headroom.contracts import Job
from headroom.guard.architectures import architecture
from headroom.guard.labels import labels
from headroom.job import JobError, read_job, settings
from headroom.job.building import (
    Built,
    Dataset,
    Model,
    Sampling,
    Training,
    add_dataset,
    prompts_of,
    resolutions_of,
    set_sampling,
    set_training,
    start_job,
)
from headroom.job.building.start import new_dataset, new_job
from headroom.job.stranger import Rules, vet
from headroom.job.writing import block_yaml
from headroom.report.wording import words

IN_THE_FORM = sorted(set(ARCHITECTURES) - {"sd3"})
FORM = configs.load("starting/choices")
MINE = """\
# my own job
job: extension
config:
  name: mine  # keep this
  process:
    - type: sd_trainer
      trigger_word: sks
      network: {type: lora, rank: 4}
      datasets:
        - folder_path: /data/mine  # the good ones
          resolution: [512]
      train: {batch_size: 2, steps: 10, lr: 0.001}
      model: {name_or_path: some/model, arch: zimage}
      unknown_to_us: 7
"""


def process(job: Job) -> dict[str, Any]:
    return job.data["config"]["process"][0]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder with three pictures, two of them with captions."""
    folder = tmp_path / "input" / "cats"
    folder.mkdir(parents=True)
    for name in ("a", "b", "c"):
        (folder / f"{name}.png").write_bytes(png())
    (folder / "a.txt").write_text("a cat", encoding="utf-8")
    (folder / "b.txt").write_text("一只猫", encoding="utf-8")
    return folder


def media(folder: Path, *names: str) -> Path:
    """A folder of files that have only their names; clips and sounds are not looked into."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"x")
    return folder


def notes(built: Built) -> str:
    return " ".join(words(sentence, "en") for sentence in built.notes)


def whole(arch: str, folder: Path, image: Path) -> Job:
    """A job with every part, for an architecture of any kind."""
    about = architecture(arch)
    frames = about.frames.at_most(41) if about.frames else None
    job = start_job(Model(arch)).job
    job = add_dataset(job, Dataset(folder, trigger_word="zqx", frames=frames)).job
    job = set_training(job, Training(name="my cat v1", steps=12)).job
    return set_sampling(job, Sampling(("a [trigger]", "b"), frames=frames, image=image)).job


# What the form starts with


@pytest.mark.parametrize("arch", IN_THE_FORM)
def test_a_new_job_starts_as_ai_toolkits_form_does_key_by_key_and_in_its_order(arch: str) -> None:
    started = dict(process(new_job(arch)))
    started["datasets"] = [new_dataset(architecture(arch))]
    assert digest(started) == json.loads(RECORDED.read_text(encoding="utf-8"))[arch], started


def test_the_form_and_headroom_know_the_same_architectures() -> None:
    assert sorted(json.loads(RECORDED.read_text(encoding="utf-8"))) == IN_THE_FORM
    assert sorted(labels().values()) == sorted(ARCHITECTURES)
    assert all(architecture(name).label == label for label, name in labels().items())


def test_without_its_node_a_job_makes_no_previews() -> None:
    job = start_job(Model("zimage")).job
    assert settings(job).get("train.disable_sampling") is True
    assert settings(set_sampling(job, Sampling(("a",))).job).get("train.disable_sampling") is False


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_job_with_every_part_is_read_back_and_may_run_on_a_server(arch: str, tmp_path: Path) -> None:
    folder = media(tmp_path / "input" / "mixed", "a.jpg", "b.mp4", "c.mp3")
    (folder / "a.jpg").write_bytes(png())
    job = whole(arch, folder, folder / "a.jpg")
    again = read_job(job.text)
    assert again.data == job.data and job.text == block_yaml(job.data)
    assert settings(again).architecture == arch
    rules = Rules(tmp_path / "runs", (tmp_path / "input",), tmp_path / "ai-toolkit")
    vetted = vet(job, rules, {})
    assert not vetted.refusals, [words(sentence, "en") for sentence in vetted.refusals]
    assert {change.path for change in vetted.changes} == {"training_folder", "sqlite_db_path"}


@pytest.mark.ai_toolkit
def test_ai_toolkits_own_classes_take_every_job(tmp_path: Path) -> None:
    toolkit, python = os.environ.get("HEADROOM_AI_TOOLKIT"), os.environ.get("HEADROOM_AI_TOOLKIT_PYTHON")
    if not (toolkit and python):
        pytest.skip("AI Toolkit; set HEADROOM_AI_TOOLKIT and HEADROOM_AI_TOOLKIT_PYTHON")
    folder = media(tmp_path / "mixed", "a.jpg", "b.mp4", "c.mp3")
    (folder / "a.jpg").write_bytes(png())
    jobs = [process(whole(arch, folder, folder / "a.jpg")) for arch in ARCHITECTURES]
    jobs += [process(add_dataset(new_job(arch), Dataset(folder, whole_clips=True, frames=5)).job) for arch in VIDEO]
    script = Path(__file__).with_name("ai_toolkit_configs.py")
    done = subprocess.run([python, script, toolkit], input=json.dumps(jobs), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found) == len(jobs) and not [problem for problem in found if problem]


VIDEO = [arch for arch in ARCHITECTURES if architecture(arch).frames]


@pytest.mark.ai_toolkit
def test_what_the_nodes_offer_is_what_the_form_offers() -> None:
    folder = os.environ.get("HEADROOM_AI_TOOLKIT")
    if not folder:
        pytest.skip("AI Toolkit; set HEADROOM_AI_TOOLKIT")
    new = Path(folder, "ui", "src", "app", "jobs", "new")
    options = (new / "options.tsx").read_text(encoding="utf-8")
    form = (new / "SimpleJob.tsx").read_text(encoding="utf-8")
    quantization = options[options.index("quantizationOptions") : options.index("defaultQtype =")]
    assert [each for each in re.findall(r"value: '([^']*)'", quantization) if each] == FORM["quantization"]

    def offered(label: str) -> list[str]:
        box = form[form.index(f'label="{label}"') :]
        return re.findall(r"value: '([^']*)'", box[: box.index("]}")])

    assert offered("Optimizer") == FORM["optimizer"]
    assert offered("Timestep Type") == FORM["timestep_type"]
    assert offered("Timestep Bias") == list(FORM["timestep_bias"].values())
    assert offered("Caption Extension") == FORM["caption_extension"]
    loader = Path(folder, "toolkit", "data_loader.py").read_text(encoding="utf-8")
    for kind, name in (("image", "image"), ("clip", "video"), ("sound", "audio")):
        assert (
            re.findall(r"'(\.\w+)'", re.search(rf"^{name}_extensions = (.*)$", loader, re.M)[1]) == FORM["media"][kind]
        )


# Models


def test_what_is_chosen_of_a_model_is_written_and_the_rest_left() -> None:
    job = start_job(Model("zimage", "/models/z", low_vram=False, quantization="uint4", layer_offloading=40)).job
    before, after = process(new_job("zimage"))["model"], process(job)["model"]
    assert {key: after[key] for key in after if after[key] != before[key]} == {
        "name_or_path": "/models/z",
        "low_vram": False,
        "qtype": "uint4",
        "layer_offloading": True,
        "layer_offloading_transformer_percent": 0.4,
        "layer_offloading_text_encoder_percent": 0.4,
    }


def test_no_quantization_is_written_as_the_form_writes_it() -> None:
    model = process(start_job(Model("zimage", quantization="none")).job)["model"]
    assert (model["quantize"], model["qtype"], model["quantize_te"]) == (False, "qfloat8", True)


def test_a_recovery_adapter_is_found_for_the_architecture_or_refused_with_those_it_has() -> None:
    job = start_job(Model("wan22_14b:t2v", adapter="uint4")).job
    assert process(job)["model"]["qtype"] == architecture("wan22_14b:t2v").recovery_adapters[0]
    with pytest.raises(JobError, match="has one for: uint4"):
        start_job(Model("wan22_14b:t2v", adapter="uint3"))
    with pytest.raises(JobError, match="no recovery adapter for SDXL"):
        start_job(Model("sdxl", adapter="uint4"))


def test_choices_that_do_nothing_are_told_and_those_that_fail_refused() -> None:
    told = notes(start_job(Model("sdxl", low_vram=True, quantization="qfloat8", layer_offloading=50)))
    assert "does not quantize SDXL" in told and "Low VRAM changes nothing" in told and "offloading changes" in told
    assert notes(start_job(Model("zimage", low_vram=True, quantization="qfloat8", layer_offloading=50))) == ""
    with pytest.raises(JobError, match="cannot offload layers of ACE-Step"):
        start_job(Model("ace_step_15", layer_offloading=50))


def test_a_model_behind_terms_names_their_page_unless_it_is_already_here() -> None:
    assert "https://huggingface.co/black-forest-labs/FLUX.1-dev" in notes(start_job(Model("flux")))
    assert notes(start_job(Model("flux", "/models/flux"))) == ""


# Datasets


def test_a_dataset_says_what_it_found_and_what_has_no_caption(pictures: Path) -> None:
    built = add_dataset(new_job("zimage"), Dataset(pictures))
    (said,) = (words(sentence, "en") for sentence in built.said)
    assert said == "In cats: pictures: 3; with a caption: 2. Trained at 512, 768, 1024."
    assert "Without a caption: c.png. They are trained with an empty one." in notes(built)
    worded = add_dataset(new_job("zimage"), Dataset(pictures, trigger_word="zqx"))
    assert "with the trigger word alone" in notes(worded)
    assert notes(add_dataset(new_job("zimage"), Dataset(pictures, default_caption="a cat"))) == ""


def test_datasets_are_chained_and_each_keeps_its_trigger_word(pictures: Path) -> None:
    job = add_dataset(new_job("zimage"), Dataset(pictures, trigger_word="one", repeats=3)).job
    job = add_dataset(job, Dataset(pictures, trigger_word="one", resolutions=(640,))).job
    job = add_dataset(job, Dataset(pictures, trigger_word="two", cache_latents=True)).job
    assert process(job)["trigger_word"] == "one"
    first, second, third = process(job)["datasets"]
    assert (first["num_repeats"], second["num_repeats"]) == (3, 1)
    assert (first["resolution"], second["resolution"]) == ([512, 768, 1024], [640])
    assert "trigger_word" not in first and "trigger_word" not in second
    assert (third["trigger_word"], third["cache_latents_to_disk"]) == ("two", True)


@pytest.mark.parametrize(
    ("arch", "files", "sentence"),
    [
        ("zimage", [], "holds nothing to train on"),
        ("zimage", ["notes.md", "a.txt", ".hidden.png"], "holds nothing to train on"),
        ("zimage", ["a.mp4"], "holds clips: 1, which Z-Image cannot be trained on"),
        ("wan21:1b", ["a.mp4"], "frames is 1: AI Toolkit would look for pictures alone. Set frames, for example to 41"),
        ("zimage", ["broken.png"], "none of it can be read"),
        ("ace_step_15", ["a.mp4"], "cannot be trained on"),
    ],
)
def test_a_folder_with_nothing_to_train_on_is_refused(
    tmp_path: Path, arch: str, files: list[str], sentence: str
) -> None:
    pytest.importorskip("PIL", reason="Pillow, to look at pictures")
    with pytest.raises(JobError, match=sentence):
        add_dataset(new_job(arch), Dataset(media(tmp_path / "it", *files)))


def test_pictures_that_cannot_be_read_are_named(pictures: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow, to look at pictures")
    (pictures / "broken.png").write_bytes(b"\x89PNG\r\n")
    (pictures / "broken.txt").write_text("a cat", encoding="utf-8")
    assert "cannot read these pictures and will leave them out: broken.png." in notes(
        add_dataset(new_job("zimage"), Dataset(pictures, trigger_word="zqx"))
    )


def test_a_caption_that_is_not_utf_8_is_refused_before_ai_toolkit_stops_at_it(pictures: Path) -> None:
    (pictures / "c.txt").write_bytes("你好，猫咪".encode("gbk"))
    with pytest.raises(JobError, match=r"not UTF-8.*c\.png"):
        add_dataset(new_job("zimage"), Dataset(pictures))


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="The folder gone cannot be read"):
        add_dataset(new_job("zimage"), Dataset(tmp_path / "gone"))


def test_frames_are_held_to_what_the_model_takes(tmp_path: Path) -> None:
    clips = media(tmp_path / "clips", "a.mp4")
    assert "takes frames of 4n+1; 40 is none of those. Near it: 37, 41." in notes(
        add_dataset(new_job("wan21:1b"), Dataset(clips, frames=40, trigger_word="x"))
    )
    assert "frames" not in notes(add_dataset(new_job("wan21:1b"), Dataset(clips, frames=41, trigger_word="x")))


def test_frames_for_a_model_of_still_images_are_left_out_and_told(pictures: Path) -> None:
    built = add_dataset(new_job("zimage"), Dataset(pictures, frames=41, default_caption="x"))
    assert process(built.job)["datasets"][0]["num_frames"] == 1
    assert "Z-Image makes still images" in notes(built)


def test_control_folders_go_where_the_model_has_them(pictures: Path, tmp_path: Path) -> None:
    control = media(tmp_path / "before", "a.png", "b.jpg")
    one = add_dataset(new_job("flux_kontext"), Dataset(pictures, controls=(control,)))
    assert process(one.job)["datasets"][0]["control_path"] == str(control)
    assert "no image of the same name for: c.png" in notes(one)
    many = add_dataset(new_job("qwen_image_edit_plus"), Dataset(pictures, controls=(control, control)))
    found = process(many.job)["datasets"][0]
    assert (found["control_path_1"], found["control_path_2"], found["control_path_3"]) == (str(control),) * 2 + (None,)
    assert "takes 0 control folders" in notes(add_dataset(new_job("zimage"), Dataset(pictures, controls=(control,))))
    assert "no control folder is chosen" in notes(add_dataset(new_job("flux_kontext"), Dataset(pictures)))


def test_what_ai_toolkit_passes_over_is_passed_over(pictures: Path) -> None:
    for name in (".thumbs/x.png", "_controls/a.png", ".x.png"):
        (pictures / name).parent.mkdir(exist_ok=True)
        (pictures / name).write_bytes(b"not a picture")
    assert "cannot read" not in notes(add_dataset(new_job("zimage"), Dataset(pictures)))


@pytest.mark.parametrize(
    ("text", "sizes"), [("512", (512,)), (" 512,768 , 512 ", (512, 768)), ("640 1024", (640, 1024))]
)
def test_resolutions_are_read_from_a_text(text: str, sizes: tuple[int, ...]) -> None:
    assert resolutions_of(text) == sizes


@pytest.mark.parametrize("text", ["", "12", "big", "512x768", "99999", "-512", "５１２", "9" * 5000])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(JobError, match="resolutions: "):
        resolutions_of(text)


# Training


def test_what_is_chosen_of_the_training_is_written_and_said() -> None:
    built = set_training(
        new_job("zimage"), Training("cat", 100, 2e-4, 8, 2, text_encoder="cache", timestep_bias="low noise")
    )
    found = process(built.job)
    assert (found["network"]["linear"], found["network"]["linear_alpha"]) == (8, 8)
    train = found["train"]
    assert (train["steps"], train["lr"], train["batch_size"], train["content_or_style"]) == (100, 2e-4, 2, "style")
    assert (train["cache_text_embeddings"], train["unload_text_encoder"]) == (True, False)
    assert built.job.data["config"]["name"] == "cat"
    (said,) = (words(sentence, "en") for sentence in built.said)
    assert said.startswith("cat: 100 steps at learning rate 0.0002, rank 8, batch 2, adamw8bit")


def test_nothing_chosen_changes_nothing() -> None:
    for arch in ("zimage", "hidream", "minimax_h3", "nucleus_image"):
        assert set_training(new_job(arch), Training()).job == new_job(arch)


@pytest.mark.parametrize("name", ["../up", "a/b", "con", "x" * 300, ".hidden", 'a"b', "a\nb"])
def test_a_name_that_no_folder_can_have_is_refused(name: str) -> None:
    with pytest.raises(JobError, match="cannot be the name of a folder"):
        set_training(new_job("zimage"), Training(name))


def test_a_text_encoder_choice_that_the_model_cannot_take_is_refused() -> None:
    broken = next(arch for arch in ARCHITECTURES if architecture(arch).effect("cache_text_embeddings") == "broken")
    refused = next(arch for arch in ARCHITECTURES if architecture(arch).effect("unload_text_encoder") == "refused")
    with pytest.raises(JobError, match="cannot cache"):
        set_training(new_job(broken), Training(text_encoder="cache"))
    with pytest.raises(JobError, match="refuses to unload"):
        set_training(new_job(refused), Training(text_encoder="unload"))


# Previews


def test_previews_take_the_forms_sizes_where_none_are_chosen() -> None:
    built = set_sampling(new_job("wan22_5b"), Sampling(("a", "b"), every=10, seed=1))
    sample = process(built.job)["sample"]
    assert (sample["width"], sample["num_frames"], sample["fps"], sample["sample_every"]) == (768, 121, 24, 10)
    assert sample["samples"] == [{"prompt": "a"}, {"prompt": "b"}]
    (said,) = (words(sentence, "en") for sentence in built.said)
    assert said.startswith("Previews: 2, 768 × 768, 121 frames")


def test_previews_can_be_switched_off_in_any_job() -> None:
    off = set_sampling(read_job(MINE), Sampling((), every=0)).job
    assert settings(off).get("train.disable_sampling") is True


def test_previews_that_need_an_image_are_refused_without_one(tmp_path: Path) -> None:
    image = tmp_path / "start.png"
    for arch in ("flux_kontext", "wan21_i2v:14b"):
        with pytest.raises(JobError, match="start from an image"):
            set_sampling(new_job(arch), Sampling(("a",)))
        assert process(set_sampling(new_job(arch), Sampling(("a",), image=image)).job)["sample"]["samples"] == [
            {"prompt": "a", "ctrl_img": str(image)}
        ]
    plus = process(set_sampling(new_job("qwen_image_edit_plus"), Sampling(("a",), image=image)).job)
    assert plus["sample"]["samples"][0]["ctrl_img_1"] == str(image)
    told = set_sampling(new_job("zimage"), Sampling(("a",), image=image))
    assert "takes no image" in notes(told) and process(told.job)["sample"]["samples"] == [{"prompt": "a"}]


def test_a_prompt_that_asks_for_a_trigger_word_that_is_not_there_is_told(pictures: Path) -> None:
    assert "no trigger word" in notes(set_sampling(new_job("zimage"), Sampling(("a [trigger]",))))
    with_word = add_dataset(new_job("zimage"), Dataset(pictures, trigger_word="zqx")).job
    assert notes(set_sampling(with_word, Sampling(("a [trigger]",)))) == ""


def test_previews_without_a_prompt_are_refused() -> None:
    with pytest.raises(JobError, match="prompts: there is none"):
        set_sampling(new_job("zimage"), Sampling(()))


@pytest.mark.parametrize(
    ("text", "prompts"),
    [
        ("a\n\n b \n", ("a", "b")),
        ("", ()),
        ("first\nline two\n---\n\nsecond\n---\n", ("first\nline two", "second")),
        ("a --- b\nc", ("a --- b", "c")),
    ],
)
def test_prompts_are_lines_or_stand_between_lines_of_dashes(text: str, prompts: tuple[str, ...]) -> None:
    assert prompts_of(text) == prompts


@pytest.mark.parametrize(
    "prompt", ['a "quoted": one', "# no comment", "- dash", "{curly", "日本語: x", "a\nb: c\n\n  d", "\\n", "yes"]
)
def test_any_prompt_survives_being_written(prompt: str) -> None:
    job = set_sampling(new_job("zimage"), Sampling((prompt,))).job
    assert process(read_job(job.text))["sample"]["samples"] == [{"prompt": prompt}]


# A job that was loaded


def test_a_job_of_somebodys_own_keeps_its_comments_and_keys(pictures: Path) -> None:
    job = read_job(MINE)
    job = set_training(job, Training("other", steps=20, rank=8)).job
    job = add_dataset(job, Dataset(pictures, trigger_word="zqx")).job
    lines = job.text.splitlines()
    assert (
        "# my own job" in lines
        and "        - folder_path: /data/mine  # the good ones" in lines
        and "  name: other  # keep this" in lines
        and "      unknown_to_us: 7" in lines
    )
    found = process(job)
    assert (found["train"]["steps"], found["train"]["batch_size"], found["network"]["rank"]) == (20, 2, 8)
    assert [each["folder_path"] for each in found["datasets"]] == ["/data/mine", str(pictures)]
    assert (found["trigger_word"], found["datasets"][1]["trigger_word"]) == ("sks", "zqx")


HEAD = "job: extension\nconfig:\n  name: x\n  process:\n  - type: sd_trainer\n"


@pytest.mark.parametrize(
    ("datasets", "as_lines"),
    [
        (
            "    datasets:\n    - folder_path: /a  # one\n      resolution:\n      - 512\n    # after\n    train: {steps: 1}\n",
            True,
        ),
        ("    datasets:\n      - &a {folder_path: /a}\n      - *a", True),
        ("    datasets:  # mine\n    -   folder_path: /a\n\n    train: {steps: 1}\n", True),
        ("    datasets:\n    - folder_path: /a\n      default_caption: |\n        open\n        text\n", False),
        ("    datasets: [{folder_path: /a}]\n", False),
        ("    datasets: []\n", False),
        ("    train: {steps: 1}\n", False),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_dataset_is_put_behind_those_of_a_loaded_job(
    pictures: Path, datasets: str, as_lines: bool, newline: str
) -> None:
    job = read_job((HEAD + datasets).replace("\n", newline))
    before = settings(job).datasets
    changed = add_dataset(job, Dataset(pictures, trigger_word="")).job
    assert process(changed)["datasets"][:before] == (process(job).get("datasets") or [])
    assert process(changed)["datasets"][before]["folder_path"] == str(pictures)
    if as_lines:
        assert set(job.text.splitlines()) <= set(changed.text.splitlines())
