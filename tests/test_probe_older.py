"""The probe in older versions of AI Toolkit, whose folders the environment names: the same events as in today's."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import toolkits
from toolkits import HERE, MODELS, STEPS, ProbeRun, Toolkit, job_data, run_probe

pytestmark = pytest.mark.ai_toolkit
OLDER = [Path(folder) for folder in os.environ.get("HEADROOM_AI_TOOLKIT_OLDER", "").split(os.pathsep) if folder]


@pytest.fixture(scope="module", params=OLDER or [None], ids=lambda folder: folder.name if folder else "none")
def older(request: pytest.FixtureRequest, monkeypatch_module: pytest.MonkeyPatch) -> Toolkit:
    """An older AI Toolkit, run with the Python of today's; versions before 0.10 import k-diffusion."""
    if request.param is None:
        pytest.skip("older versions of AI Toolkit; set HEADROOM_AI_TOOLKIT_OLDER to their folders")
    monkeypatch_module.setitem(toolkits.ENVIRONMENT, "PYTHONPATH", str(HERE / "standins" / "for_older"))
    return replace(request.getfixturevalue("real_toolkit"), name=request.param.name, folder=request.param)


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module", params=sorted(MODELS))
def ran(request: pytest.FixtureRequest, older: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> ProbeRun:
    """A run with a worker that loads its data, whose third step and second preview run out of memory."""
    folder = tmp_path_factory.mktemp(request.param)
    data = job_data(older, folder / "out", request.param)
    data["config"]["process"][0]["datasets"][0]["num_workers"] = 1
    job = folder / "job.json"
    job.write_text(json.dumps(data), encoding="utf-8")
    return run_probe(older, folder, job, "--meter", faults={"train": [4], "decode": [2]})


def test_a_run_of_an_older_version_tells_what_one_of_todays_does(ran: ProbeRun) -> None:
    assert ran.exit_code == 0, ran.log[-3000:]
    # Which of the last preview and the last save comes first has changed.
    assert ran.phases[:7] == [
        "load begin", "load end", "cache begin", "cache end", "baseline_sample begin", "baseline_sample end",
        "train begin",
    ]  # fmt: skip
    assert Counter(ran.phases[7:]) == Counter(
        {"sample begin": 2, "sample end": 2, "save begin": 2, "save end": 2, "train end": 1}
    )
    assert [each.keys["step"] for each in ran.of("step")] == [1, 2, 4]
    assert [(each.keys["step"], each.keys["index"]) for each in ran.of("preview")] == [
        (step, index) for step in (0, 2, STEPS) for index in (0, 1)
    ]
    assert [each.keys["outcome"] for each in ran.of("preview")] == ["made", "smaller", "made", "made", "made", "made"]
    assert all(Path(each.keys["path"]).stat().st_size > 0 for each in ran.of("preview"))
    names = [Path(each.keys["path"]).name for each in ran.of("checkpoint")]
    assert names == ["tiny_000000003.safetensors", "tiny.safetensors"]
    assert ran.finished == {"how": "finished", "steps": {"done": STEPS, "total": STEPS, "skipped_batches": 1}}


def test_it_tells_of_the_errors_that_it_swallows_and_of_the_largest_bucket(ran: ProbeRun) -> None:
    inside = [(each.keys["phase"], each.keys["inside"]) for each in ran.of("out_of_memory")]
    assert inside == [("baseline_sample", "decode"), ("train", "forward")]
    (skipped,) = ran.of("skipped")
    assert skipped.keys["step"] == 3 and len(skipped.keys["files"]) == 1
    notes = [each.keys["text"] for each in ran.of("note")]
    assert "the largest bucket fits: 128x128x1, batch of 1" in notes
    assert not [note for note in notes if "has no" in note or "not seen" in note]


def test_card_and_host_are_told_apart_there_too(ran: ProbeRun) -> None:
    assert "no GPU: tensors are counted in its place" in [each.keys["text"] for each in ran.of("note")]
    assert 0.002 < ran.peak("load") < 0.1
    assert all(each.keys["host_gib"] is None or each.keys["host_gib"] > 0.05 for each in ran.of("memory"))
