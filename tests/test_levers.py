"""What each lever does to a job, and when it keeps still."""

from __future__ import annotations

from typing import Any

import pytest

from headroom import configs
from headroom.contracts import Diagnosis, Job, Stage, say
from headroom.guard.levers import Edit, Move, levers
from headroom.guard.situation import Situation
from headroom.job import Settings, read_job, settings
from headroom.report.wording import LANGUAGES, words

DATASET = {"folder_path": "/data", "resolution": [512, 768, 1024]}
PREVIEW = {"width": 1024, "height": 1024, "prompts": ["a cat"]}


def job(arch: str = "flux", **sections: Any) -> Settings:
    """A small job; a section given as ``None`` is left out, others are merged into it."""
    process: dict[str, Any] = {
        "type": "sd_trainer",
        "network": {"type": "lora", "linear": 16},
        "datasets": [DATASET],
        "train": {"batch_size": 1, "dtype": "bf16", "lr": 1e-4},
        "model": {"name_or_path": "some/model", "arch": arch},
        "sample": PREVIEW,
    }
    for name, section in sections.items():
        if section is None:
            del process[name]
        else:
            process[name] = {**process[name], **section} if isinstance(section, dict) and name in process else section
    return settings(Job("", "json", data={"job": "extension", "config": {"name": "x", "process": [process]}}))


def moves(lever: str, found: Settings, stage: Stage = "train", inside: str = "", **how: Any) -> list[dict[str, Any]]:
    """The moves a lever offers, each as path -> new value."""
    at = Situation(found, stage, "vram", inside)
    return [{edit.path: edit.new for edit in move} for move in levers()[lever].moves(at, **how)]


def move(lever: str, found: Settings, stage: Stage = "train", **how: Any) -> Move:
    return next(iter(levers()[lever].moves(Situation(found, stage, "vram"), **how)))


def test_every_entry_has_its_class_and_every_class_its_entry() -> None:
    assert set(levers()) == set(configs.load("levers")["levers"])


def test_checkpointing_is_switched_on_only_where_it_is_off() -> None:
    assert moves("gradient_checkpointing", job(train={"gradient_checkpointing": False})) == [
        {"train.gradient_checkpointing": True}
    ]
    assert not moves("gradient_checkpointing", job(train={"gradient_checkpointing": True}))
    assert not moves("gradient_checkpointing", job())


# ---- batch size


def test_the_batch_falls_to_one_and_accumulation_keeps_the_effective_batch() -> None:
    found = job(train={"batch_size": 4, "gradient_accumulation": 2})
    assert moves("batch_size", found) == [{"train.batch_size": 1, "train.gradient_accumulation": 8}]
    assert [edit.companion for edit in move("batch_size", found)] == [False, True]


def test_a_datasets_own_batch_decides_instead_of_the_trainers() -> None:
    own = job(train={"batch_size": 8}, datasets=[{**DATASET, "batch_size": 2}, {**DATASET, "batch_size": 1}])
    assert moves("batch_size", own) == [{"datasets[0].batch_size": 1, "train.gradient_accumulation": 2}]
    mixed = job(train={"batch_size": 3}, datasets=[{**DATASET, "batch_size": 2}, DATASET])
    assert moves("batch_size", mixed) == [
        {"train.batch_size": 1, "datasets[0].batch_size": 1, "train.gradient_accumulation": 3}
    ]
    assert not moves("batch_size", job(train={"batch_size": 8}, datasets=[{**DATASET, "batch_size": 1}]))


@pytest.mark.parametrize("more", [{"gradient_accumulation_steps": 4}, {"optimizer": "Automagic3"}])
def test_accumulation_is_left_alone_where_it_cannot_be_raised(more: dict[str, Any]) -> None:
    assert moves("batch_size", job(train={"batch_size": 2, **more})) == [{"train.batch_size": 1}]


def test_one_item_at_a_time_already_leaves_the_batch() -> None:
    assert not moves("batch_size", job(train={"batch_size": 4, "single_item_batching": True}))


# ---- resolution


def resolution(value: Any, *more: Any) -> Settings:
    return job(datasets=[{**DATASET, "resolution": each} for each in (value, *more)])


@pytest.mark.parametrize(
    ("now", "then"),
    [
        ([512, 768, 1024], [512, 768]),
        ([1024, 512], [512]),
        ([1024], [768]),
        (1536, 1024),
        (1328, 1024),
        (1024, 768),
        (640, 512),
        ([256, 768], [256, 512]),
    ],
)
def test_the_largest_bucket_goes_and_a_single_one_steps_down(now: Any, then: Any) -> None:
    assert moves("largest_bucket", resolution(now), least=512) == [{"datasets[0].resolution": then}]


@pytest.mark.parametrize("now", [512, [512], [256, 512], 256, ["${SIZE}"]])
def test_nothing_goes_below_the_least(now: Any) -> None:
    assert not moves("largest_bucket", resolution(now), least=512)


def test_below_512_only_as_a_later_rung_and_never_below_256() -> None:
    assert moves("largest_bucket", resolution([512]), least=256) == [{"datasets[0].resolution": [256]}]
    assert not moves("largest_bucket", resolution(256), least=256)


def test_all_datasets_that_hold_the_largest_value_change_and_no_other() -> None:
    found = resolution([512, 1024], 1024, [512, 768])
    assert moves("largest_bucket", found, least=512) == [
        {"datasets[0].resolution": [512], "datasets[1].resolution": 768}
    ]


def test_with_a_cap_all_above_it_goes_at_once() -> None:
    found = resolution([512, 768, 1024, 1536], 1024, 512)
    assert moves("largest_bucket", found, least=512, cap=768) == [
        {"datasets[0].resolution": [512, 768], "datasets[1].resolution": 768}
    ]
    assert moves("largest_bucket", resolution([512, 768]), least=512, cap=768) == [{"datasets[0].resolution": [512]}]


def test_sound_has_no_buckets_of_pixels() -> None:
    assert not moves("largest_bucket", job("ace_step_15"), least=256)


def test_control_images_are_shrunk_where_the_model_can_and_there_are_some() -> None:
    with_controls = [{**DATASET, "control_path_1": "/controls"}]
    path = "model.model_kwargs.match_target_res"
    assert moves("largest_bucket", job("flux2", datasets=with_controls), controls=True) == [{path: True}]
    assert not moves("largest_bucket", job("flux2"), controls=True)
    assert not moves("largest_bucket", job("flux", datasets=with_controls), controls=True)


# ---- frames


def clips(arch: str, *datasets: dict[str, Any], **sections: Any) -> Settings:
    return job(arch, datasets=[{**DATASET, **each} for each in datasets], **sections)


@pytest.mark.parametrize(
    ("arch", "now", "then"),
    [
        ("wan22_14b:t2v", 81, 53),
        ("wan21:1b", 80, 53),
        ("ltx2", 121, 81),
        ("minimax_h3", 107, 56),
        ("wan22_5b", 9, 5),
    ],
)
def test_frames_fall_to_a_legal_count_worth_a_retry(arch: str, now: int, then: int) -> None:
    assert moves("frames", clips(arch, {"num_frames": now})) == [{"datasets[0].num_frames": then}]


def test_a_clip_never_becomes_a_picture() -> None:
    assert not moves("frames", clips("wan21:1b", {"num_frames": 5}))
    assert not moves("frames", clips("ltx2", {"num_frames": 9}))
    assert not moves("frames", clips("wan21:1b", {"num_frames": 1}))


def test_frames_stop_at_the_least_and_go_to_the_cap_at_once() -> None:
    assert moves("frames", clips("wan21:1b", {"num_frames": 21}), least=17) == [{"datasets[0].num_frames": 17}]
    assert not moves("frames", clips("wan21:1b", {"num_frames": 17}), least=17)
    assert moves("frames", clips("wan21:1b", {"num_frames": 121}), cap=True) == [{"datasets[0].num_frames": 41}]


def test_every_dataset_with_more_frames_follows() -> None:
    found = clips("wan21:1b", {"num_frames": 81}, {"num_frames": 49}, {"num_frames": 61})
    assert moves("frames", found) == [{"datasets[0].num_frames": 53, "datasets[2].num_frames": 53}]


def test_automatic_counts_become_a_fixed_one() -> None:
    found = clips("wan21:1b", {"auto_frame_count": True}, {"num_frames": 81})
    assert moves("frames", found) == [
        {
            "datasets[0].auto_frame_count": False,
            "datasets[0].num_frames": 41,
            "datasets[1].num_frames": 41,
        }
    ]
    assert moves("frames", clips("minimax_h3", {"auto_frame_count": True, "num_frames": 39})) == [
        {"datasets[0].auto_frame_count": False}
    ]


def test_previews_follow_only_where_they_may_have_failed() -> None:
    found = clips("wan21:1b", {"num_frames": 81}, sample={**PREVIEW, "num_frames": 81})
    assert moves("frames", found, "unknown") == [{"datasets[0].num_frames": 53, "sample.num_frames": 53}]
    assert moves("frames", found, "train") == [{"datasets[0].num_frames": 53}]


def test_a_model_without_frames_has_no_such_lever() -> None:
    assert not moves("frames", clips("flux", {"num_frames": 81}))


# ---- previews


def sample(**keys: Any) -> dict[str, Any]:
    return {"sample": {**PREVIEW, **keys}}


def smaller(found: Settings, stage: Stage = "sample", **how: Any) -> list[dict[str, Any]]:
    return moves("sampling", found, stage, to="smaller", **how)


def test_previews_shrink_by_a_quarter_of_each_side_in_the_models_multiples() -> None:
    assert smaller(job(**sample())) == [{"sample.width": 768, "sample.height": 768}]
    assert smaller(job(**sample(width=1344, height=768))) == [{"sample.width": 992, "sample.height": 576}]
    assert not smaller(job(**sample(width=256, height=256)))
    assert not smaller(job(**sample(width=576, height=576)), least_side=512)


def test_the_largest_preview_decides_and_smaller_ones_stay() -> None:
    items = [
        {"prompt": "a", "width": 512, "height": 512},
        {"prompt": "b", "width": 1536, "height": 1024},
        {"prompt": "c"},
    ]
    assert smaller(job(sample={"width": 768, "height": 768, "samples": items})) == [
        {"sample.samples[1].width": 1152, "sample.samples[1].height": 768}
    ]


def test_flags_in_a_prompt_are_changed_in_the_prompt() -> None:
    assert smaller(job(**sample(prompts=["a cat --w 1024 --h 1024 --seed 3"]))) == [
        {"sample.prompts[0]": "a cat --w 768 --h 768 --seed 3"}
    ]


def test_previews_of_video_lose_frames_before_size() -> None:
    assert smaller(job("wan21:1b", **sample(num_frames=81))) == [{"sample.num_frames": 53}]
    assert smaller(job("wan21:1b", **sample(num_frames=17)), least_frames=17) == [
        {"sample.width": 768, "sample.height": 768}
    ]


def test_with_a_cap_previews_become_conservative_at_once() -> None:
    assert smaller(job("wan21:1b", **sample(num_frames=81)), cap=True) == [
        {"sample.width": 512, "sample.height": 512, "sample.num_frames": 41}
    ]


def test_a_baselines_own_section_is_shrunk_with_it_but_not_for_a_later_preview() -> None:
    found = job(first_sample={"width": 1536, "height": 1536, "prompts": ["x"]}, **sample())
    assert smaller(found, "baseline_sample") == [{"first_sample.width": 1152, "first_sample.height": 1152}]
    assert smaller(found, "sample") == [{"sample.width": 768, "sample.height": 768}]


def test_previews_are_switched_off_or_the_first_is_skipped() -> None:
    off = {"train.disable_sampling": True}
    assert moves("sampling", job(), "sample", to="off") == [off]
    assert moves("sampling", job(), "baseline_sample", to="off") == [off, {"train.skip_first_sample": True}]
    own = job(first_sample={"prompts": ["x"]})
    assert moves("sampling", own, "baseline_sample", to="off") == [off], "skip_first_sample does not skip it"
    assert not moves("sampling", job(train={"disable_sampling": True}), "sample", to="off")


def test_an_excerpt_that_does_not_show_its_previews_gets_them_switched_off() -> None:
    assert moves("sampling", job(sample=None), "sample", to="off", unseen=True) == [{"train.disable_sampling": True}]
    assert not moves("sampling", job(), "sample", to="off", unseen=True)
    assert not moves("sampling", job(sample=None), "unknown", to="off")


def test_a_decode_is_tiled_where_it_failed_and_the_model_can() -> None:
    tiled = [{"model.model_kwargs.vae_tiling": True}]
    assert moves("sampling", job("wan21:1b"), "sample", "decode", to="tiled") == tiled
    assert not moves("sampling", job("wan21:1b"), "sample", "denoise", to="tiled")
    assert not moves("sampling", job("wan21:1b", model={"low_vram": True}), "sample", "decode", to="tiled")
    assert not moves("sampling", job("flux"), "sample", "decode", to="tiled")


# ---- weights


@pytest.mark.parametrize(
    ("arch", "stage", "helps"),
    [
        ("qwen_image", "load", True),
        ("qwen_image", "sample", True),
        ("qwen_image", "train", False),
        ("wan22_14b:t2v", "train", True),
        ("sdxl", "load", False),
        ("chroma", "load", False),
        ("flux", "load", True),
        ("flux", "sample", False),
        ("ltx2", "cache", True),
        ("no_such_arch", "load", False),
    ],
)
def test_low_vram_only_in_the_phases_where_the_code_heeds_it(arch: str, stage: Stage, helps: bool) -> None:
    assert bool(moves("low_vram", job(arch), stage)) is helps
    assert not moves("low_vram", job(arch, model={"low_vram": True}), stage)


def quantized(found: Settings, to: str, stage: Stage = "train") -> list[dict[str, Any]]:
    return moves("quantization", found, stage, to=to)


def test_the_transformer_is_quantized_where_that_does_something() -> None:
    assert quantized(job("flux"), "transformer") == [{"model.quantize": True}]
    assert quantized(job("sdxl"), "transformer") == []
    assert quantized(job("nucleus_image"), "transformer") == [], "most of its weights stay in full width"
    assert quantized(job("no_such_arch"), "transformer") == []
    assert quantized(job("flux", model={"quantize": True}), "transformer") == []


@pytest.mark.parametrize("written", ["", None, "uint8", "bf16"])
def test_a_type_that_quantizes_nothing_is_replaced(written: Any) -> None:
    found = job("anima", model={"qtype": written})
    assert quantized(found, "transformer") == [{"model.quantize": True, "model.qtype": "qfloat8"}]
    found = job("minimax_h3", model={"qtype": written})
    assert quantized(found, "transformer") == [{"model.quantize": True, "model.qtype": "convrot8"}]


@pytest.mark.parametrize("to", ["transformer", "text_encoder", "recovery", "fewer_bits"])
def test_weights_that_are_trained_are_never_quantized(to: str) -> None:
    full = job("qwen_image", network=None)
    assert quantized(full, to) == []
    assert quantized(job("qwen_image", network=None, model={"quantize": True, "quantize_te": False}), to) == []


def test_a_trained_text_encoder_stays_out_of_it() -> None:
    found = job("flux", train={"train_text_encoder": True})
    assert quantized(found, "transformer") == [{"model.quantize": True, "model.quantize_te": False}]
    assert quantized(found, "text_encoder") == []


def test_the_text_encoder_is_quantized_where_it_is_on_the_card() -> None:
    plain = job("qwen_image", model={"quantize": True, "quantize_te": False})
    assert quantized(plain, "text_encoder") == [{"model.quantize_te": True}]
    cached = {"train": {"cache_text_embeddings": True}, "model": {"quantize": True, "quantize_te": False}}
    assert quantized(job("qwen_image", **cached), "text_encoder", "train") == []
    assert quantized(job("qwen_image", **cached), "text_encoder", "cache") == [{"model.quantize_te": True}]
    assert quantized(plain, "text_encoder", "load") == [], "there it comes to the card in full width first"
    klein = job("flux2_klein_9b", model={"quantize": True, "quantize_te": False})
    assert quantized(klein, "text_encoder", "load") == [{"model.quantize_te": True}]


def test_a_recovery_adapter_where_one_is_offered_and_nothing_excludes_it() -> None:
    adapter = "uint3|ostris/accuracy_recovery_adapters/qwen_image_torchao_uint3.safetensors"
    assert quantized(job("qwen_image", model={"quantize": True}), "recovery") == [{"model.qtype": adapter}]
    assert quantized(job("qwen_image"), "recovery") == [{"model.quantize": True, "model.qtype": adapter}]
    assert move("quantization", job("qwen_image"), to="recovery")[0].moves_with_it == "model.quantize_te"
    both = job("qwen_image:2512", model={"quantize": True})
    assert next(iter(quantized(both, "recovery")[0].values())).startswith("uint4|"), "more bits first"
    with_assistant = job("qwen_image", model={"quantize": True, "assistant_lora_path": "a/b.safetensors"})
    assert quantized(with_assistant, "recovery") == []
    assert quantized(job("qwen_image", model={"quantize": True, "qtype": adapter}), "recovery") == []
    assert quantized(job("hidream", model={"quantize": True}), "recovery") == [], "its class ignores the adapter"


def test_fewer_bits_one_type_at_a_time_and_not_below_four() -> None:
    def then(qtype: str, arch: str = "flux") -> list[dict[str, Any]]:
        return quantized(job(arch, model={"quantize": True, "qtype": qtype}), "fewer_bits")

    assert then("qfloat8") == [{"model.qtype": "uint6"}]
    assert then("uint6") == [{"model.qtype": "uint4"}]
    assert then("uint4") == then("convrotint3") == then("something_new") == []
    assert then("convrot8", "minimax_h3") == [], "its files are quantized already"


@pytest.mark.parametrize(
    ("arch", "helps"),
    [
        ("qwen_image", True),
        ("wan21:14b", True),
        ("flux", False),
        ("sdxl", False),
        ("ace_step_15", False),
        ("prx_pixel", False),
    ],
)
def test_layers_are_offloaded_only_where_the_class_implements_it(arch: str, helps: bool) -> None:
    assert bool(moves("layer_offloading", job(arch))) is helps
    assert not moves("layer_offloading", job(arch, network=None))


def test_offloading_goes_up_for_the_card_and_down_for_the_host() -> None:
    on = {"layer_offloading": True}
    transformer, text = (f"model.layer_offloading_{part}_percent" for part in ("transformer", "text_encoder"))
    assert not moves("layer_offloading", job("qwen_image", model=on))
    half = job("qwen_image", model={**on, "layer_offloading_transformer_percent": 0.5})
    assert moves("layer_offloading", half) == [{transformer: 1.0}]
    assert moves("layer_offloading", job("qwen_image", model=on), less=True) == [{transformer: 0.7, text: 0.7}]
    assert moves("layer_offloading", half, less=True) == [{transformer: 0.4, text: 0.7}]
    least = {**on, "layer_offloading_transformer_percent": 0.4, "layer_offloading_text_encoder_percent": 0}
    assert moves("layer_offloading", job("qwen_image", model=least), less=True) == [{"model.layer_offloading": False}]
    assert not moves("layer_offloading", job("qwen_image"), less=True)


def test_the_old_name_of_offloading_counts() -> None:
    assert not moves("layer_offloading", job("qwen_image", model={"auto_memory": True}))


@pytest.mark.parametrize(("dtype", "helps"), [("fp32", True), ("float32", True), ("bf16", False), ("fp16", False)])
def test_full_precision_becomes_bf16(dtype: str, helps: bool) -> None:
    assert moves("precision", job(train={"dtype": dtype})) == ([{"train.dtype": "bf16"}] if helps else [])


def test_an_absent_dtype_is_fp32_unless_the_job_is_an_excerpt() -> None:
    def found(train: str) -> Settings:
        text = "job: extension\nconfig: {name: x, process: [{type: sd_trainer, network: {type: lora}, train: "
        return settings(read_job(f"{text}{train}, model: {{name_or_path: a, arch: flux}}}}]}}"))

    assert moves("precision", found("{lr: 1e-4, noise_scheduler: flowmatch}")) == [{"train.dtype": "bf16"}]
    assert not moves("precision", found("{lr: 1e-4}"))
    assert not moves("precision", found("{batch_size: 1}"))


def test_weights_that_are_trained_keep_their_precision() -> None:
    assert not moves("precision", job(network=None, train={"dtype": "fp32"}))


# ---- caches


@pytest.mark.parametrize(
    ("arch", "sections", "helps"),
    [
        ("flux", {}, True),
        ("qwen_image_edit", {}, True),
        ("flux", {"train": {"cache_text_embeddings": True}}, False),
        ("flux", {"train": {"unload_text_encoder": True}}, False),
        ("flux", {"train": {"train_text_encoder": True}}, False),
        ("flux", {"embedding": {"trigger": "x"}}, False),
        ("chroma", {}, False),
        ("chroma", {"train": {"disable_sampling": True}}, True),
        ("lumina2", {}, False),
        ("sd15", {"train": {"disable_sampling": True}}, True),
        ("flux_kontext", {"train": {"disable_sampling": True}}, False),
        ("flex2", {"train": {"disable_sampling": True}}, False),
        ("omnigen2", {"train": {"disable_sampling": True}}, False),
        ("hidream_o1", {}, False),
        ("no_such_arch", {}, False),
    ],
)
def test_text_embeddings_are_cached_only_where_the_run_survives_it(
    arch: str, sections: dict[str, Any], helps: bool
) -> None:
    assert moves("text_embedding_cache", job(arch, **sections)) == (
        [{"train.cache_text_embeddings": True}] if helps else []
    )


def test_as_a_last_resort_previews_go_with_the_text_encoder() -> None:
    assert moves("text_embedding_cache", job("chroma"), without_previews=True) == [
        {"train.cache_text_embeddings": True, "train.disable_sampling": True}
    ]


def test_latents_are_cached_for_all_datasets_or_none() -> None:
    found = job(datasets=[{**DATASET, "cache_latents": True}, DATASET])
    assert moves("latent_cache", found) == [{"datasets[1].cache_latents_to_disk": True}]
    assert not moves("latent_cache", job(datasets=[DATASET, {**DATASET, "random_crop": True}]))
    assert not moves("latent_cache", job(datasets=[{**DATASET, "augments": ["blur"]}]))
    assert not moves("latent_cache", job("wan22_14b_i2v")), "needs the pictures in every step"
    assert not moves("latent_cache", job("zeta_chroma")), "has no VAE"


def test_latents_in_memory_move_to_disk() -> None:
    found = job(datasets=[{**DATASET, "cache_latents": True}, {**DATASET, "cache_latents_to_disk": True}])
    assert moves("latent_cache", found, from_memory=True) == [
        {"datasets[0].cache_latents": False, "datasets[0].cache_latents_to_disk": True}
    ]


# ---- loader and averages


def test_fewer_workers_then_none_at_all() -> None:
    assert moves("loader_workers", job()) == [{"datasets[0].num_workers": 1, "datasets[0].prefetch_factor": 1}]
    one = job(datasets=[{**DATASET, "num_workers": 1, "prefetch_factor": 1}])
    none = [{"datasets[0].num_workers": 0, "datasets[0].prefetch_factor": None}]
    assert moves("loader_workers", one) == none
    assert moves("loader_workers", job(), none=True) == none
    assert not moves("loader_workers", job(datasets=[{**DATASET, "num_workers": 0}]))


def test_only_the_first_dataset_of_each_loader_counts() -> None:
    found = job(datasets=[DATASET, DATASET, {**DATASET, "is_reg": True}])
    assert set(moves("loader_workers", found, none=True)[0]) == {
        f"datasets[{index}].{key}" for index in (0, 2) for key in ("num_workers", "prefetch_factor")
    }


def test_fewer_pictures_are_decoded_ahead_while_caching() -> None:
    assert moves("loader_workers", job(), threads=True) == [{"datasets[0].cache_latents_num_workers": 1}]


def test_the_average_is_switched_off_only_where_it_is_on() -> None:
    assert moves("ema", job(train={"ema_config": {"use_ema": True}})) == [{"train.ema_config.use_ema": False}]
    assert not moves("ema", job(train={"ema_config": {"use_ema": False}})) and not moves("ema", job())


# ---- what is always so


@pytest.mark.parametrize("lang", LANGUAGES)
def test_each_lever_has_a_name_and_can_say_what_it_advises_without_a_job(lang: str) -> None:
    for name, lever in levers().items():
        assert words(say(f"lever.{name}.name"), lang)
        for kind in {"advice", "host_advice"} & lever.entry.keys():
            assert words(say(f"lever.{name}.{kind}.reason"), lang) and words(say(f"lever.{name}.{kind}.price"), lang)
            assert lever.entry[kind]["path"].replace("[*]", "[]") in lever.entry["keys"]


def test_situation_reads_what_a_cache_failure_fell_in() -> None:
    def caching(inside: str = "", **sections: Any) -> tuple[str, ...]:
        return Situation(job(**sections), "cache", "vram", inside).caching

    latents = [{**DATASET, "cache_latents_to_disk": True}]
    assert caching(datasets=latents) == ("latents",)
    assert caching(train={"cache_text_embeddings": True}) == ("text",)
    assert caching(train={"cache_text_embeddings": True}, datasets=latents) == ("text", "latents")
    assert caching() == ("text", "latents")
    assert caching("latents", train={"cache_text_embeddings": True}) == ("latents",)


def test_a_diagnosis_becomes_a_situation() -> None:
    found = Diagnosis(True, "C", "vram", "sample", "change_job", 0.9, (), inside="decode")
    at = Situation.of(job("wan21:1b", **sample(num_frames=81)), found, "next")
    assert (at.stage, at.inside, at.media, at.phases) == ("sample", "decode", "video", {"preview"})


def test_an_edit_says_why_and_at_what_price() -> None:
    edit = move("largest_bucket", resolution(1024), least=512)[0]
    assert isinstance(edit, Edit)
    assert "1024" in words(edit.reason) and "768" in words(edit.reason) and words(edit.price)
