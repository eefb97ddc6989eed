"""From a diagnosis to a corrected job: what is changed, what is said, and what is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headroom.contracts import Advice, Cause, Correction, Diagnosis, Job, Stage
from headroom.guard.architectures import architecture
from headroom.guard.places import where
from headroom.guard.traps import traps
from headroom.job import JobError, read_job
from headroom.recovery.correct import correct
from headroom.report.wording import LANGUAGES, words

JOB = """\
job: extension
config:
  name: mine
  process:
    - type: sd_trainer
      network: {type: lora, linear: 16}
      datasets:
        - folder_path: /data   # my pictures
          resolution: [512, 768, 1024]
      train:
        batch_size: 4
        gradient_checkpointing: true
        lr: 1e-4
        dtype: bf16
      model:
        name_or_path: some/model
        arch: qwen_image
        quantize: true
      sample:
        width: 1024
        height: 1024
        prompts: ["a cat"]
"""


def failed(stage: Stage = "train", cause: Cause = "vram", advice: Advice = "change_job") -> Diagnosis:
    return Diagnosis(True, "B", cause, stage, advice, 0.9, ())


def paths(found: Correction) -> dict[str, Any]:
    return {change.path: change.new for change in found.changes}


def notes(found: Correction) -> list[str]:
    return [note.key for note in found.notes]


def edited(*pairs: tuple[str, str]) -> Job:
    text = JOB
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return read_job(text)


SMALL = edited(("batch_size: 4", "batch_size: 1"), ("[512, 768, 1024]", "[512]"))


def test_next_is_one_lever_and_its_companions() -> None:
    found = correct(read_job(JOB), failed())
    assert paths(found) == {"train.batch_size": 1, "train.gradient_accumulation": 4}
    assert {change.lever for change in found.changes} == {"batch_size"}
    assert found.changes[0].old == 4 and found.changes[1].old is None


def test_safe_is_the_conservative_set_at_once_each_lever_seeing_the_others() -> None:
    assert paths(correct(read_job(JOB), failed(), "safe")) == {
        "train.batch_size": 1,
        "train.gradient_accumulation": 4,
        "datasets[0].resolution": [512, 768],
        "train.cache_text_embeddings": True,
        "datasets[0].cache_latents_to_disk": True,
    }


def test_safe_falls_back_to_the_next_lever_where_its_set_is_in_force() -> None:
    small = edited(
        ("batch_size: 4", "batch_size: 1"),
        ("[512, 768, 1024]", "[512]\n          cache_latents_to_disk: true"),
        ("dtype: bf16", "dtype: bf16\n        cache_text_embeddings: true"),
    )
    assert list(paths(correct(small, failed(), "safe"))) == ["model.qtype"]


def test_reasons_stand_as_comments_in_the_asked_language_or_not_at_all() -> None:
    lines = {lang: correct(read_job(JOB), failed(), comments=lang).job for lang in (*LANGUAGES, None)}
    assert all(found is not None for found in lines.values())
    assert "One item at a time" in lines["en"].text  # type: ignore[union-attr]
    assert "每次只处理" in lines["zh"].text  # type: ignore[union-attr]
    assert lines[None].text.count("#") == JOB.count("#")  # type: ignore[union-attr]
    assert "# my pictures" in lines["en"].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("stage", "first"),
    [
        ("train", "batch_size"),
        ("unknown", "batch_size"),
        ("sample", "sampling"),
        ("baseline_sample", "sampling"),
        ("load", "low_vram"),
        ("startup", "low_vram"),
        ("save", "batch_size"),
        ("cache", "largest_bucket"),
    ],
)
def test_the_stage_chooses_the_ladder(stage: Stage, first: str) -> None:
    assert correct(read_job(JOB), failed(stage)).changes[0].lever == first


def test_what_failed_inside_a_cache_chooses_too() -> None:
    whole = edited(("quantize: true", "quantize: true\n        quantize_te: false"))
    text, latents = (replace(failed("cache"), inside=inside) for inside in ("text", "latents"))
    assert list(paths(correct(whole, text))) == ["model.quantize_te"]
    assert list(paths(correct(whole, latents))) == ["datasets[0].resolution"]


def test_captions_that_do_not_fit_are_quantized_or_offloaded() -> None:
    found = correct(SMALL, replace(failed("cache"), inside="text"))
    assert list(paths(found)) == ["model.layer_offloading"]


@pytest.mark.parametrize("advice", ["new_worker", "free_gpu", "update_or_rollback", "fix_error", "none"])
def test_other_advice_leaves_the_job_as_it_is(advice: Advice) -> None:
    given = read_job(JOB)
    found = correct(given, failed(advice=advice))
    assert found.job == given and not found.changes and not found.notes


@pytest.mark.parametrize(
    ("cause", "stage", "expected"),
    [
        ("shared_memory", "train", {"datasets[0].num_workers": 1, "datasets[0].prefetch_factor": 1}),
        ("host_ram", "train", {"datasets[0].cache_latents": False, "datasets[0].cache_latents_to_disk": True}),
        ("page_file", "load", {"model.layer_offloading_transformer_percent": 0.7}),
        ("pinned_memory", "load", {"model.layer_offloading_transformer_percent": 0.7}),
    ],
)
def test_a_cloud_user_can_ask_less_of_the_host(cause: Cause, stage: Stage, expected: dict[str, Any]) -> None:
    whole = edited(
        ("# my pictures", "\n          cache_latents: true"),
        ("quantize: true", "quantize: true\n        layer_offloading: true"),
    )
    found = paths(correct(whole, failed(stage, cause, "fix_host")))
    assert expected.items() <= found.items()


def test_disk_and_spill_have_no_setting_that_a_fixed_host_would_need() -> None:
    assert not correct(read_job(JOB), failed(cause="disk", advice="fix_host")).changes
    assert correct(read_job(JOB), failed(cause="spill")).changes[0].lever == "batch_size"


# ---- locks


def test_a_lock_is_named_and_the_next_lever_is_used() -> None:
    found = correct(read_job(JOB), failed(), locks=["train.batch_size"])
    assert list(paths(found)) == ["datasets[0].resolution"]
    said = next(words(note) for note in found.notes if note.key == "correct.locked")
    assert "batch size" in said and "train.batch_size" in said


def test_a_lock_on_a_companion_keeps_only_that() -> None:
    found = correct(read_job(JOB), failed(), locks=["train.gradient_accumulation"])
    assert paths(found) == {"train.batch_size": 1}
    assert "correct.companion_locked" in notes(found)


def test_a_lock_holds_for_a_key_that_would_follow_another() -> None:
    plain = edited(("quantize: true", "low_vram: true"))
    assert list(paths(correct(plain, failed("load")))) == ["model.quantize"]
    found = correct(plain, failed("load"), locks=["model.quantize_te"])
    assert list(paths(found)) == ["model.layer_offloading"] and "correct.locked" in notes(found)
    said = edited(("quantize: true", "low_vram: true\n        quantize_te: false"))
    assert list(paths(correct(said, failed("load"), locks=["model.quantize_te"]))) == ["model.quantize"]


@pytest.mark.parametrize("lock", ["datasets[*]", "datasets", "datasets[0]", "datasets[0].resolution"])
def test_a_lock_above_a_key_locks_it(lock: str) -> None:
    assert "datasets[0].resolution" not in paths(correct(read_job(JOB), failed(), "safe", [lock]))


def test_with_everything_locked_nothing_is_left_and_that_is_said() -> None:
    given = read_job(JOB)
    found = correct(given, failed(), locks=["train", "datasets", "model", "sample"])
    assert found.job == given and not found.changes
    assert {"correct.locked", "correct.nothing_left"} <= set(notes(found))


def test_a_lock_that_is_no_path_is_an_error_whatever_the_advice() -> None:
    with pytest.raises(JobError):
        correct(read_job(JOB), failed(advice="none"), locks=["not a path!"])


# ---- what is said


def test_a_reader_who_expects_them_is_told_why_steps_and_rate_stay() -> None:
    assert "correct.not_touched" in notes(correct(read_job(JOB), failed()))
    host = correct(read_job(JOB), failed("train", "shared_memory", "fix_host"))
    assert host.changes and "correct.not_touched" not in notes(host)


def test_an_unknown_architecture_gets_only_what_works_for_all_and_is_told_so() -> None:
    found = correct(edited(("arch: qwen_image", "arch: brand_new")), failed("unknown"), "safe")
    assert {change.lever for change in found.changes} == {"batch_size", "largest_bucket", "sampling", "latent_cache"}
    assert "correct.unknown_architecture" in notes(found)


def test_a_load_that_is_all_weights_says_so() -> None:
    found = correct(edited(("arch: qwen_image", "arch: sdxl")), failed("load"))
    assert "correct.load_is_all_weights" in notes(found)
    assert found.changes[0].lever == "batch_size"


def test_a_process_that_trains_nothing_has_no_training_settings() -> None:
    found = correct(edited(("type: sd_trainer", "type: reference_generator")), failed())
    assert notes(found) == ["correct.not_training"] and not found.changes


def test_without_a_job_the_ladder_is_advice() -> None:
    found = correct(None, failed("unknown"))
    assert found.job is None
    assert [change.lever for change in found.changes] == [
        "gradient_checkpointing",
        "batch_size",
        "largest_bucket",
        "sampling",
        "frames",
    ]
    assert all(change.old is None for change in found.changes)
    assert correct(None, failed("sample")).changes[0].lever == "sampling"
    assert correct(None, failed("load")).changes[0].lever == "quantization"
    shared = correct(None, failed("train", "shared_memory", "fix_host"))
    assert [change.path for change in shared.changes] == ["datasets[*].num_workers"]
    pinned = correct(None, failed("load", "pinned_memory", "fix_host"))
    assert [(change.path, change.new) for change in pinned.changes] == [
        ("model.layer_offloading_transformer_percent", 0.5)
    ]
    assert not correct(None, failed(advice="new_worker")).changes
    for change in found.changes:
        assert all(words(said, lang) for said in (change.reason, change.price, change.where) for lang in LANGUAGES)


def test_an_old_name_of_a_key_is_changed_where_it_counts() -> None:
    given = edited(("quantize: true", "quantize: true\n        auto_memory: true"))
    found = correct(given, failed("load", "pinned_memory", "fix_host"))
    assert found.changes and all(change.path.startswith("model.layer_offloading") for change in found.changes)


def test_a_shared_dataset_is_changed_by_itself() -> None:
    shared = JOB.replace("- folder_path", "- &one\n          folder_path").replace(
        "      train:", "        - <<: *one\n          resolution: [512]\n      train:"
    )
    found = correct(read_job(shared), failed(), "safe")
    assert found.job is not None
    first, second = found.job.data["config"]["process"][0]["datasets"]
    assert (first["resolution"], second["resolution"]) == ([512, 768], [512])


# ---- where to click


@pytest.mark.parametrize(
    ("path", "arch", "place"),
    [
        ("train.batch_size", "flux", "Training › Batch Size"),
        ("train.gradient_checkpointing", "flux", "Show Advanced › train.gradient_checkpointing"),
        ("datasets[1].resolution", "flux", "Datasets › Dataset 2 › Resolutions"),
        ("model.low_vram", "qwen_image", "Model › Options › Low VRAM"),
        ("model.low_vram", "flux", "Show Advanced › model.low_vram"),
        ("sample.width", "flux", "Sample › Width"),
        ("sample.num_frames", "wan21:1b", "Sample › Num Frames"),
        ("sample.num_frames", "flux", "Show Advanced › sample.num_frames"),
        ("sample.samples[2].width", "flux", "Sample › Sample Prompts › prompt 3 › Width"),
        ("model.quantize", "no_such_arch", "Show Advanced › model.quantize"),
    ],
)
def test_the_place_is_the_one_that_ai_toolkits_form_shows(path: str, arch: str, place: str) -> None:
    said = where(path, architecture(arch))
    assert words(said, "en") == place
    assert words(said, "zh").startswith(place)


# ---- traps


def trap(*pairs: tuple[str, str], skipped: int = 0) -> list[str]:
    return [found.key.removeprefix("lever.trap.") for found in traps(edited(*pairs), skipped)]


def train(line: str) -> tuple[str, str]:
    return "dtype: bf16", f"dtype: bf16\n        {line}"


def model(line: str) -> tuple[str, str]:
    return "quantize: true", f"quantize: true\n        {line}"


def dataset(line: str) -> tuple[str, str]:
    return "# my pictures", f"\n          {line}"


def arch(name: str) -> tuple[str, str]:
    return "arch: qwen_image", f"arch: {name}"


CACHE = train("cache_text_embeddings: true")


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], []),
        ([CACHE], []),
        ([CACHE, arch("chroma")], ["text_cache_and_previews"]),
        ([CACHE, arch("chroma"), ('["a cat"]', "[]")], []),
        ([CACHE, arch("omnigen2")], ["text_cache_broken"]),
        ([CACHE, train("unload_text_encoder: true")], ["unload_and_cache"]),
        ([CACHE, train("train_text_encoder: true")], ["trained_and_cached"]),
        ([train("unload_text_encoder: true"), arch("qwen_image_edit")], ["unload_refused"]),
        ([model("qtype: uint3|a/b.safetensors"), model("assistant_lora_path: c/d")], ["recovery_and_assistant"]),
        ([model("qtype: uint3|a/b.safetensors"), arch("hidream")], ["recovery_ignored"]),
        ([model("qtype: uint8")], ["type_quantizes_nothing"]),
        ([model("assistant_lora_path: c/d"), arch("wan21:14b")], ["assistant_refused"]),
        ([train("gradient_accumulation: 2\n        gradient_accumulation_steps: 2")], ["two_accumulations"]),
        ([train("gradient_accumulation: 2\n        optimizer: Automagic2")], ["optimizer_cannot_accumulate"]),
        ([model("split_model_over_gpus: true"), arch("flux")], ["split_needs_flag"]),
        ([model("split_model_over_gpus: true\n        is_flux: true"), arch("flux")], []),
        ([model("layer_offloading: true"), arch("ace_step_15")], ["offloading_fails"]),
        ([model("layer_offloading: true"), arch("flux")], ["offloading_does_nothing"]),
        ([model("layer_offloading: true")], []),
        ([dataset("cache_latents: true"), arch("wan22_14b_i2v")], ["latents_unusable"]),
        ([dataset("num_workers: 0")], ["no_workers_but_prefetch"]),
        ([dataset("num_workers: 0\n          prefetch_factor: null")], []),
        ([dataset("buckets: false\n          batch_size: 2")], ["dataset_batch_needs_buckets"]),
        ([dataset("cache_text_embeddings: true")], []),
    ],
)
def test_settings_that_break_ai_toolkit_are_named(pairs: list[tuple[str, str]], expected: list[str]) -> None:
    assert trap(*pairs) == expected


def test_the_timer_is_a_trap_only_once_steps_were_skipped() -> None:
    timed = ("type: sd_trainer", "type: sd_trainer\n      performance_log_every: 10")
    assert trap(timed) == [] and trap(timed, skipped=3) == ["timer_divides_by_zero"]


def test_frames_off_the_grid_are_named_with_the_counts_that_are_on_it() -> None:
    odd = edited(arch("wan21:14b"), dataset("num_frames: 80"), ("width: 1024", "width: 1024\n        num_frames: 42"))
    said = [words(found) for found in traps(odd)]
    assert said == [
        "datasets[0].num_frames is 80; Wan 2.1 (14B) takes 4n+1 frames. Use 77 or 81.",
        "sample.num_frames is 42; Wan 2.1 (14B) takes 4n+1 frames. Use 41 or 45.",
    ]
