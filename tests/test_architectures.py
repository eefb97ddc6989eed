"""What is known of each architecture: complete, consistent, and found from every name a job may use."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from job_shapes import ARCHITECTURES

from headroom import configs
from headroom.guard.architectures import FrameGrid, architecture
from headroom.guard.places import where
from headroom.report.wording import words

PHASES = {"load", "cache_text", "cache_latents", "preview", "train", "save"}
EFFECTS = {
    "quantize": {True, False, "little", "unknown"},
    "quantize_te": {"own", "transformer", "with_transformer", False, "unknown"},
    "accuracy_recovery": {True, False},
    "cache_text_embeddings": {"works", "without_previews", "broken", "useless", "unknown"},
    "unload_text_encoder": {"works", "refused", "hidden", "useless", "unknown"},
    "cache_latents": {"works", "unusable", "useless"},
}
FORM = {"low_vram", "layer_offloading", "quantize", "quantize_te", "unload_text_encoder", "match_target_res"}


@pytest.mark.parametrize("name", [*ARCHITECTURES, "no_such_arch"])
def test_a_file_uses_the_words_that_the_index_explains(name: str) -> None:
    about = architecture(name)
    assert about.kind in ("image", "edit", "video", "audio", "unknown")
    for effect, allowed in EFFECTS.items():
        assert about.effect(effect) in allowed
    assert set(about.lowers("low_vram")) <= PHASES
    assert about.effect("layer_offloading") == "error" or set(about.lowers("layer_offloading")) <= {
        "transformer",
        "text_encoder",
    }
    assert set(about.form) <= FORM | {"num_frames", "auto_frame_count"}
    assert about.memory.get("load") in (None, "whole", "blockwise", "prequantized", "plain")
    assert (about.frames is not None) is (about.kind in ("video", "unknown"))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_parameter_counts_add_up(name: str) -> None:
    memory = architecture(name).memory
    for part in (memory.get("transformer", {}), *memory.get("text_encoders", ())):
        assert part.get("linear_params", 0) <= part.get("params", float("inf"))
    blocks = memory.get("transformer", {}).get("blocks", ())
    assert sum(block["count"] * block["params"] for block in blocks) <= memory.get("transformer", {}).get("params", 0)


def test_all_of_ai_toolkits_form_is_known_and_a_few_more() -> None:
    assert len(ARCHITECTURES) == 53
    assert all(architecture(name).known and architecture(name).name == name for name in ARCHITECTURES)


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("sd1", "SD 1.5"),
        ("sd2", "Stable Diffusion 2"),
        ("sd", "SD 1.5"),
        ("vega", "Segmind Vega"),
        ("ssd", "SSD-1B"),
        ("wan21", "Wan 2.1"),
        ("wan21:1b", "Wan 2.1 (1.3B)"),
        ("wan22_14b", "Wan 2.2 (14B)"),
        ("zimage:some_new_tag", "Z-Image"),
        ("qwen_image_edit_plus:2511", "Qwen-Image-Edit-2511"),
        ("qwen_image_edit_plus:2509", "Qwen-Image-Edit-2509"),
    ],
)
def test_other_names_lead_to_the_same_facts(written: str, label: str) -> None:
    assert architecture(written).label == label


@pytest.mark.parametrize("written", ["no_such_arch", "", "../index", "index", "generic", "FLUX", "a" * 9000, "x\0y"])
def test_an_unknown_name_gets_what_holds_for_every_model_and_is_told_so(written: str) -> None:
    about = architecture(written)
    assert not about.known
    assert not about.lowers("low_vram") and not about.lowers("layer_offloading")


@pytest.mark.parametrize(
    ("grid", "legal"),
    [
        (FrameGrid(4, 1), [1, 5, 9, 13, 17, 21, 25, 29, 33, 81]),
        (FrameGrid(8, 1), [1, 9, 17, 25, 33, 121]),
        (FrameGrid(17, 5), [5, 22, 39, 56, 73, 90, 107, 124]),
    ],
)
def test_frame_counts_stay_on_the_grid(grid: FrameGrid, legal: list[int]) -> None:
    for count in legal:
        assert grid.at_most(count) == count
        assert grid.at_most(count + grid.step - 1) == count
    for frames in range(2, 300):
        fewer = grid.fewer(frames, 0.67)
        if fewer is not None:
            assert 1 < fewer < frames and (fewer - grid.first) % grid.step == 0
    assert grid.fewer(grid.shortest_clip, 0.67) is None


def _source(*parts: str) -> str:
    folder = os.environ.get("HEADROOM_AI_TOOLKIT")
    if not folder:
        pytest.skip("no AI Toolkit: set HEADROOM_AI_TOOLKIT")
    return Path(folder, *parts).read_text(encoding="utf-8")


@pytest.mark.ai_toolkit
def test_ai_toolkits_form_lists_the_same_architectures_and_adapters() -> None:
    options = re.sub(r"^\s*//.*$", "", _source("ui", "src", "app", "jobs", "new", "options.tsx"), flags=re.M)
    table = options[options.index("export const modelArchs") : options.index("export const groupedModelOptions")]
    names = re.findall(r"^    name: '([^']+)'", table, re.M)
    assert sorted(names) == sorted(set(ARCHITECTURES) - {"sd3"})
    for name, entry in zip(names, re.split(r"^    name: '", table, flags=re.M)[1:], strict=True):
        about = architecture(name)
        shown = set(re.findall(r"'(?:model|datasets)\.(?:qie\.)?([a-z_]+)'", _section(entry, "additionalSections")))
        hidden = set(re.findall(r"'(?:model|train)\.([a-z_]+)'", _section(entry, "disableSections")))
        expected = {"quantize", "quantize_te", "unload_text_encoder"} - hidden | (shown & (FORM | _FRAMES))
        assert set(about.form) == expected, name
        offered = set(re.findall(r"'(uint\d\|[^']+)'", entry))
        assert set(about.recovery_adapters) == (offered if about.effect("accuracy_recovery") else set()), name


_FRAMES = {"num_frames", "auto_frame_count"}


def _section(entry: str, name: str) -> str:
    found = re.search(rf"{name}: \[(.*?)\]", entry, re.S)
    return found[1] if found else ""


@pytest.mark.ai_toolkit
def test_every_place_named_is_a_label_of_ai_toolkits_form() -> None:
    form = _source("ui", "src", "app", "jobs", "new", "SimpleJob.tsx")
    for path in configs.load("levers")["form"]:
        place = words(where(path.replace("[]", "[0]"), architecture("minimax_h3")), "en")
        for label in place.split(" › "):
            if label.startswith(("Show Advanced", "Dataset ", "prompt ", "model.")):
                continue
            assert re.search(rf"[\"'`>]\s*{re.escape(label)}\s*[\"'`<(]|^\s*{re.escape(label)} [<(]", form, re.M), label
