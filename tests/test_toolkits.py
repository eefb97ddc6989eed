"""The stand-in for AI Toolkit is held to the real one: the same events, lines, files and LoRA from the same job."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from toolkits import MODELS, ProbeRun, Toolkit, job_data, run_probe

pytestmark = pytest.mark.ai_toolkit
# What differs from run to run, or from one torch to another.
TELLS_OF_TIME = ("memory", "download")


@pytest.fixture(scope="module", params=sorted(MODELS))
def pair(
    request: pytest.FixtureRequest,
    real_toolkit: Toolkit,
    standin_toolkit: Toolkit,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[ProbeRun, ProbeRun]:
    """Text embeddings and latents on disk, two resolutions, a batch that runs out of memory, a preview that does."""

    def run(toolkit: Toolkit) -> ProbeRun:
        folder = tmp_path_factory.mktemp(toolkit.name)
        # The older kind's previews fail where the text encoder is gone.
        job = job_with_caches(toolkit, folder, request.param, texts=request.param != "sd1")
        return run_probe(toolkit, folder, job, "--meter", faults={"train": [4], "decode": [2, 3]})

    return run(real_toolkit), run(standin_toolkit)


def job_with_caches(toolkit: Toolkit, folder: Path, architecture: str, texts: bool) -> Path:
    """Two resolutions, latents on disk, texts there too where that is asked for."""
    data = job_data(toolkit, folder / "out", architecture)
    process = data["config"]["process"][0]
    process["datasets"][0] |= {"resolution": [64, 128], "cache_latents_to_disk": True, "cache_latents": False}
    process["train"]["cache_text_embeddings"] = texts
    job = folder / "job.json"
    job.write_text(json.dumps(data), encoding="utf-8")
    return job


def shape(run: ProbeRun) -> list[tuple[Any, ...]]:
    """Kinds, phases, keys and outcomes of the events, in their order."""
    told = ("phase", "state", "inside", "step", "index", "outcome", "how", "steps", "numbers", "text")
    return [
        (each.event, tuple(sorted(each.keys)), *(each.keys.get(key) for key in told))
        for each in run.events
        if each.event not in TELLS_OF_TIME
    ]


def test_both_give_the_same_events_from_the_same_job(pair: tuple[ProbeRun, ProbeRun]) -> None:
    real, standin = pair
    assert real.exit_code == standin.exit_code == 0, real.log[-2000:] + standin.log[-2000:]
    assert shape(standin) == shape(real)


def test_both_leave_the_same_files(pair: tuple[ProbeRun, ProbeRun]) -> None:
    def files(run: ProbeRun) -> list[str]:
        paths = sorted(str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file())
        return [re.sub(r"\d{13}", "TIME", path) for path in paths]

    real, standin = pair
    assert files(standin) == files(real)


def test_both_save_a_lora_of_the_same_keys_and_sizes(pair: tuple[ProbeRun, ProbeRun]) -> None:
    def tensors(run: ProbeRun) -> dict[str, Any]:
        text = (run.folder / "out" / "tiny" / "tiny.safetensors").read_bytes()
        header = json.loads(text[8 : 8 + int.from_bytes(text[:8], "little")])
        info = header.pop("__metadata__")
        return {name: (each["dtype"], each["shape"]) for name, each in header.items()} | {
            name: info[name] for name in ("training_info", "ss_base_model_version", "ss_output_name", "format")
        }

    real, standin = pair
    assert tensors(standin) == tensors(real)


def test_both_print_the_lines_that_a_reader_goes_by(pair: tuple[ProbeRun, ProbeRun]) -> None:
    """All lines but bars, warnings of packages and what names a folder or a time, in the same order."""

    def lines(run: ProbeRun) -> list[str]:
        log = re.sub(r"\x1b\[\w", "", run.log.replace(str(run.folder), "FOLDER"))
        pieces = [piece.strip() for piece in re.split(r"[\r\n]", log)]
        pieces = [re.sub(r"^(Dataset:|Caching .* for|Bucket sizes for) .*", r"\1 PATH", piece) for piece in pieces]
        begun = pieces.index("# Running job: tiny")
        return [piece for piece in pieces[begun:] if piece and not re.search(r"%\||Warning|^W\d{4}", piece)]

    real, standin = pair
    assert lines(standin) == lines(real)


def test_previews_of_the_older_kind_fail_in_both_where_the_text_encoder_is_gone(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    ran = run_probe(toolkit, tmp_path, job_with_caches(toolkit, tmp_path, "sd1", texts=True))
    assert ran.exit_code == 1
    assert ran.finished["message"] == "AttributeError: 'FakeTextEncoder' object has no attribute 'text_model'"
    assert ran.phases[-1] == "baseline_sample end" and not ran.of("preview")
