"""Settings are what AI Toolkit would use: written, or under another name, or its code's default and not its UI's."""

from __future__ import annotations

from typing import Any

import pytest

from headroom import configs
from headroom.job import JobError, Preview, Settings, previews, prompt_flags, read_job, settings, with_flags


def process(text: str, number: int = 0) -> Settings:
    """The settings of a job whose process is given as one line of YAML flow."""
    return settings(read_job(f"{{job: extension, config: {{name: x, process: [{text}]}}}}"), number)


def sd(text: str) -> Settings:
    return process(f"{{type: sd_trainer, {text}}}")


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("train.dtype", "fp32"),
        ("train.batch_size", 1),
        ("train.gradient_checkpointing", True),
        ("train.optimizer", "adamw"),
        ("train.ema_config.use_ema", False),
        ("model.dtype", "fp32"),
        ("model.quantize", False),
        ("model.qtype", "qfloat8"),
        ("model.low_vram", False),
        ("network.linear", 4),
        ("datasets[0].resolution", 512),
        ("datasets[0].num_frames", 1),
        ("datasets[0].num_workers", 2),
        ("sample.sample_every", 100),
        ("sample.width", 512),
        ("save.save_every", 1000),
        ("first_sample.width", 512),
    ],
)
@pytest.mark.parametrize("job", ["datasets: [{}]", "train: null, model: ~, sample: , datasets: [{}]"])
def test_an_absent_key_has_the_default_of_the_code(job: str, path: str, default: Any) -> None:
    assert sd(job).get(path) == default
    assert sd(job).written(path) is None
    assert not sd(job).has(path)


def test_what_is_written_counts_and_is_told_apart_from_what_is_used() -> None:
    job = sd("train: {batch_size: 4, gradient_checkpointing: 'false', ema_config: null}, datasets: [{batch_size: }]")
    assert job.get("train.batch_size") == job.written("train.batch_size") == 4
    assert job.get("train.gradient_checkpointing") is True  # a text is true for Python
    assert job.written("train.gradient_checkpointing") == "false"
    assert job.has("datasets[0].batch_size")
    assert job.written("datasets[0].batch_size") is None
    assert job.get("datasets[0].batch_size") == 4
    assert job.get("train.ema_config.use_ema") is False


def test_a_key_outside_the_table_is_what_is_written() -> None:
    assert sd("mine: {deep: [1, {x: 2}]}").get("mine.deep[1].x") == 2
    assert sd("a: 1").get("mine.deep[1].x") is None


def test_rank_wins_over_linear_and_layer_offloading_over_auto_memory() -> None:
    assert sd("network: {rank: 16, linear: 8}").get("network.linear") == 16
    assert sd("network: {rank: null, linear: 8}").get("network.linear") == 8
    assert sd("network: {rank: 16}").place("network.linear") == "network.rank"
    assert sd("network: {linear: 16}").place("network.linear") == "network.linear"
    assert sd("model: {auto_memory: true}").get("model.layer_offloading") is True
    assert sd("model: {auto_memory: true, layer_offloading: false}").get("model.layer_offloading") is False


def test_a_default_may_be_another_key() -> None:
    assert sd("model: {quantize: true}").get("model.quantize_te") is True
    assert sd("model: {quantize: true, quantize_te: false}").get("model.quantize_te") is False
    assert sd("train: {dtype: bf16}, model: {dtype: fp16}").get("model.te_dtype") == "bf16"
    assert sd("train: {batch_size: 4}, datasets: [{}, {batch_size: 2}]").get("datasets[0].batch_size") == 4
    assert sd("train: {batch_size: 4}, datasets: [{}, {batch_size: 2}]").get("datasets[1].batch_size") == 2
    assert sd("sample: {width: 640, samples: [{}, {width: 320}]}").get("sample.samples[0].width") == 640
    assert sd("sample: {width: 640, samples: [{}, {width: 320}]}").get("sample.samples[1].width") == 320


def test_one_setting_may_decide_another() -> None:
    assert sd("train: {cache_text_embeddings: true}, datasets: [{}]").get("datasets[0].cache_text_embeddings") is True
    augmented = sd("datasets: [{cache_latents_to_disk: true, augments: [x]}, {cache_latents_to_disk: true}]")
    assert augmented.get("datasets[0].cache_latents_to_disk") is False
    assert augmented.get("datasets[1].cache_latents_to_disk") is True
    assert sd("model: {layer_offloading: true}").get("model.qtype") == "float8"
    assert sd("model: {layer_offloading: true, qtype: uint4}").get("model.qtype") == "uint4"


@pytest.mark.parametrize(
    ("model", "architecture", "base"),
    [
        ("{arch: 'wan22_14b:t2v'}", "wan22_14b:t2v", "wan22_14b"),
        ("{arch: flex1}", "flex1", "flux"),
        ("{is_flux: true}", "flux", "flux"),
        ("{is_xl: true, is_ssd: true}", "sdxl", "sdxl"),
        ("{is_ssd: true}", "ssd", "ssd"),
        ("{is_flux: false}", "sd1", "sd1"),
        ("{arch: sdxl, is_flux: true}", "sdxl", "sdxl"),
        ("null", "sd1", "sd1"),
    ],
)
def test_the_architecture_is_the_one_ai_toolkit_resolves(model: str, architecture: str, base: str) -> None:
    job = sd(f"model: {model}")
    assert (job.architecture, job.base_architecture) == (architecture, base)


def test_several_processes_and_datasets() -> None:
    text = "{type: sd_trainer, train: {batch_size: 2}}, {type: ui_trainer, train: {batch_size: 3}, datasets: [{}, {}]}"
    assert process(text).get("train.batch_size") == 2
    assert process(text, 1).get("train.batch_size") == 3
    assert process(text, 1).get("process[1].train.batch_size") == 3
    assert (process(text).datasets, process(text, 1).datasets) == (0, 2)
    with pytest.raises(JobError, match="the job has 2 entries"):
        process(text, 2)
    with pytest.raises(JobError):
        process(text, 1).get("process[2].train.batch_size")


@pytest.mark.parametrize("kind", ["sd_trainer", "ui_trainer", "diffusion_trainer", "concept_slider", "my_own_trainer"])
def test_trainers_train(kind: str) -> None:
    assert process(f"{{type: {kind}}}").trains


@pytest.mark.parametrize("kind", ["rescale_lora", "Qwen3VLCaptioner", "to_folder"])
def test_other_processes_do_not(kind: str) -> None:
    assert not process(f"{{type: {kind}}}").trains


def test_a_placeholder_is_given_as_written() -> None:
    assert sd("train: {batch_size: '${B}', gradient_checkpointing: '${G}'}").get("train.batch_size") == "${B}"
    assert sd("train: {gradient_checkpointing: '${G}'}").get("train.gradient_checkpointing") == "${G}"


def sizes(job: Settings, section: str = "sample") -> list[tuple[int, int, int]]:
    return [(preview.width, preview.height, preview.num_frames) for preview in previews(job, section)]


def test_prompts_make_previews_of_the_global_size() -> None:
    made = previews(sd("sample: {width: 1024, height: 768, num_frames: 41, prompts: [a cat, a dog]}"))
    decided = {"width": "sample.width", "height": "sample.height", "num_frames": "sample.num_frames"}
    assert made[1] == Preview(1, 1024, 768, 41, "sample.prompts[1]", decided)
    assert len(made) == 2


def test_samples_win_over_prompts_and_their_own_sizes_over_the_global_one() -> None:
    job = sd(
        "sample: {width: 1024, prompts: [a, b, c], samples: [{prompt: x, width: 512, num_frames: 9}, {prompt: y}]}"
    )
    assert sizes(job) == [(512, 512, 9), (1024, 512, 1)]
    first, second = previews(job)
    assert first.decided_by["width"] == "sample.samples[0].width"
    assert second.decided_by["width"] == "sample.width"
    assert second.path == "sample.samples[1]"


def test_flags_in_a_prompt_win_over_everything() -> None:
    job = sd("sample: {samples: [{prompt: 'a cat --w 640 --frames 17 --steps 9', width: 512, height: 320}]}")
    (made,) = previews(job)
    assert (made.width, made.height, made.num_frames) == (640, 320, 17)
    assert made.decided_by["width"] == made.decided_by["num_frames"] == "sample.samples[0].prompt"
    (made,) = previews(sd("sample: {prompts: ['a cat --h 640']}"))
    assert made.decided_by["height"] == "sample.prompts[0]"


def test_sides_are_cut_to_eight_pixels_and_are_64_at_least() -> None:
    assert sizes(sd("sample: {width: 1023, height: 20, prompts: [a]}")) == [(1016, 64, 1)]


def test_a_sample_without_a_prompt_shifts_the_sizes_as_in_ai_toolkit() -> None:
    job = sd("sample: {samples: [{width: 128}, {prompt: a, width: 256}, {prompt: b, width: 384}]}")
    assert [width for width, _, _ in sizes(job)] == [128, 256]


def test_the_first_sample_may_have_settings_of_its_own() -> None:
    job = sd("sample: {width: 1024, prompts: [a]}, first_sample: {width: 256, prompts: [b, c]}")
    assert sizes(job, "first_sample") == [(256, 512, 1), (256, 512, 1)]


def test_no_prompts_no_previews() -> None:
    assert previews(sd("sample: {width: 1024}")) == previews(sd("a: 1")) == previews(sd("sample: {prompts: []}")) == ()


def test_a_size_that_only_the_run_knows_counts_as_the_default() -> None:
    assert sizes(sd("sample: {width: '${W}', prompts: [a]}")) == [(512, 512, 1)]


def test_flags_of_a_prompt_are_read_and_rewritten_in_place() -> None:
    prompt = "a cat -- no flag --w 1024 --h  768 --n ugly --num_frames 41"
    assert prompt_flags(prompt) == {"width": 1024, "height": 768, "num_frames": 41}
    smaller = with_flags(prompt, {"width": 512, "num_frames": 17})
    assert smaller == "a cat -- no flag --w 512 --h  768 --n ugly --num_frames 17"
    assert with_flags("a cat", {"width": 512}) == "a cat"
    assert prompt_flags("a --w big --h 5") == {"height": 5}


def test_the_table_of_keys_is_complete_in_itself() -> None:
    table = configs.load("job_keys")
    keys = table["keys"]
    known = {"type", "default", "same_as", "on_null", "always", "forced", "off_when", "rewrite"}
    for path, key in keys.items():
        assert key.keys() <= known, path
        assert key["type"] in ("int", "number", "float", "bool", "str", "size", "map", "list"), path
        assert ("default" in key) != ("same_as" in key), path
        assert key.get("on_null") in (None, "absent", "value"), path
        others = [key.get("same_as"), key.get("always"), key.get("forced"), *key.get("off_when", ())]
        others.append(key.get("rewrite", {}).get("when"))
        assert all(other in keys or other == "model.auto_memory" for other in others if other), path
    assert set(table["other_spellings"].values()) <= keys.keys()
