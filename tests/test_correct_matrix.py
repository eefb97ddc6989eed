"""Every architecture, every stage, pictures and video, three shapes of job, both strengths."""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from job_shapes import ARCHITECTURES, SHAPES

from headroom import configs
from headroom.contracts import Change, Correction, Diagnosis, Job, Language, Media, Stage, Strength
from headroom.guard.architectures import Architecture, architecture
from headroom.job import JobError, edit, locked, read_job, read_job_file, settings
from headroom.recovery.correct import correct
from headroom.report.wording import LANGUAGES, words

STAGES: tuple[Stage, ...] = ("startup", "load", "cache", "baseline_sample", "train", "sample", "save", "unknown")
MEDIA: tuple[Media, ...] = ("image", "video")
STRENGTHS: tuple[Strength, ...] = ("next", "safe")
NEVER = ("train.lr", "train.steps", "train.optimizer", "network")


@dataclass(frozen=True)
class Corrected:
    arch: str
    media: str
    shape: str
    stage: Stage
    strength: Strength
    job: Job
    correction: Correction
    with_lock: Correction | None  # the same again, with the first change's key locked

    @property
    def about(self) -> Architecture:
        return architecture(self.arch)

    @property
    def changes(self) -> tuple[Change, ...]:
        return self.correction.changes


def _diagnosis(stage: Stage) -> Diagnosis:
    return Diagnosis(True, "B", "vram", stage, "change_job", 0.9, ())


def _corrected() -> Iterator[Corrected]:
    for arch in ARCHITECTURES:
        for media in MEDIA:
            for shape, make in SHAPES.items():
                job = read_job(make(arch, media))
                for stage in STAGES:
                    for strength in STRENGTHS:
                        found = correct(job, _diagnosis(stage), strength, comments=None)
                        again = None
                        if found.changes and strength == "next":
                            again = correct(job, _diagnosis(stage), strength, [found.changes[0].path], comments=None)
                        yield Corrected(arch, media, shape, stage, strength, job, found, again)


@pytest.fixture(scope="module")
def matrix() -> Iterator[list[Corrected]]:
    """All combinations; several ask for the same edit of the same job, which is made once."""
    made: dict[Any, Job] = {}

    def edit_once(job: Job, changes: Sequence[Change], comments: Language | None) -> Job:
        key = (job.text, comments, *((change.path, repr(change.new)) for change in changes))
        if key not in made:
            made[key] = edit(job, changes, comments)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("headroom.job.editing"), "edit", edit_once)
        yield list(_corrected())


def test_every_combination_is_answered(matrix: list[Corrected], capsys: pytest.CaptureFixture[str]) -> None:
    assert len(matrix) == len(ARCHITECTURES) * len(STAGES) * len(MEDIA) * len(SHAPES) * len(STRENGTHS)
    levers = Counter(case.changes[0].lever for case in matrix if case.changes)
    with capsys.disabled():
        print(f"\ncorrection matrix: {len(ARCHITECTURES)} architectures, {len(matrix)} corrections,")
        print(f"  {sum(bool(case.changes) for case in matrix)} changed the job,", end=" ")
        print(f"{sum(not case.changes for case in matrix)} had nothing left,", end=" ")
        print(f"{sum(case.with_lock is not None for case in matrix)} repeated with a lock")
        print("  first levers:", ", ".join(f"{name} {count}" for name, count in levers.most_common()))


def test_each_shape_meets_both_answers_where_it_should(matrix: list[Corrected]) -> None:
    for case in matrix:
        if case.shape == "conservative":
            assert not case.changes, case
        if case.shape == "heavy":
            assert case.changes, case


def test_a_correction_is_never_the_same_job_again(matrix: list[Corrected]) -> None:
    for case in matrix:
        if case.changes:
            assert case.correction.job is not None
            assert case.correction.job.data != case.job.data
            assert any(change.old != change.new for change in case.changes)
        else:
            assert case.correction.job == case.job
            assert "correct.nothing_left" in [note.key for note in case.correction.notes]


def test_next_pulls_one_lever(matrix: list[Corrected]) -> None:
    for case in matrix:
        if case.strength == "next":
            assert len({change.lever for change in case.changes}) <= 1


@pytest.mark.parametrize("lang", LANGUAGES)
def test_everything_said_is_said_in_both_languages(matrix: list[Corrected], lang: str) -> None:
    for case in matrix:
        for change in case.changes:
            assert words(change.reason, lang) and words(change.price, lang) and words(change.where, lang)
        for note in case.correction.notes:
            assert words(note, lang)


def test_only_the_changed_values_read_differently(matrix: list[Corrected]) -> None:
    for case in matrix:
        assert case.correction.job is not None
        before, after = (dict(_leaves(job.data["config"]["process"][0])) for job in (case.job, case.correction.job))
        differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        paths = tuple(change.path for change in case.changes)
        assert all(path.startswith(paths) for path in differing), (case.arch, differing, paths)


def test_only_the_changed_lines_differ(matrix: list[Corrected]) -> None:
    for case in matrix:
        assert case.correction.job is not None
        before, after = case.job.text.splitlines(), case.correction.job.text.splitlines()
        words = {part for change in case.changes for part in re.split(r"[.\[\]]+", change.path) if part}
        values = {str(item) for change in case.changes for item in _items(change.old) + _items(change.new)}
        for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            if kind != "equal":
                gone, come = before[a:b], after[c:d]
                assert all(line.strip().removeprefix("- ") in values or _names(line, words) for line in come), case
                kept_in = "\n".join(come)
                for line in gone:  # a line that goes was a changed value, or is there again with a key more
                    value = line.strip().removeprefix("- ")
                    assert value in values or _names(line, words) or value.rstrip("}").strip() in kept_in, case


def _names(line: str, words: set[str]) -> bool:
    return any(f"{word}:" in line for word in words)


def test_only_keys_of_the_lever_are_touched_and_none_that_decides_the_result(matrix: list[Corrected]) -> None:
    entries = configs.load("levers")["levers"]
    for case in matrix:
        for change in case.changes:
            assert re.sub(r"\[\d+\]", "[]", change.path) in entries[change.lever]["keys"], change
            assert not change.path.startswith(NEVER), change


def test_a_change_does_something_for_the_architecture_and_the_phase(matrix: list[Corrected]) -> None:
    for case in matrix:
        for change in case.changes:
            _does_something(case, change)


def _does_something(case: Corrected, change: Change) -> None:
    about, after = case.about, settings(case.correction.job or case.job)
    match change.path.split(".", maxsplit=1)[1] if not change.path.startswith("datasets") else change.path:
        case "low_vram":
            assert about.lowers("low_vram"), case
            if case.stage == "train":
                assert "train" in about.lowers("low_vram"), case
        case "quantize" | "qtype":
            assert about.effect("quantize") is True or about.effect("quantize_te") == "transformer", case
        case "quantize_te" | "qtype_te":
            assert about.effect("quantize_te") in ("own", "transformer"), case
        case "layer_offloading":
            assert "transformer" in about.lowers("layer_offloading"), case
        case "cache_text_embeddings":
            previews = after.get("train.disable_sampling") is not True
            allowed = ("works",) if previews else ("works", "without_previews")
            assert about.effect("cache_text_embeddings") in allowed, case
            assert case.stage not in ("load", "startup") or about.memory["load"] == "plain", case
    if "cache_latents" in change.path:
        assert about.effect("cache_latents") == "works", case
    if change.path.endswith("resolution"):
        assert min(_items(change.new)) >= 256 and max(_items(change.new)) < max(_items(change.old)), change
        assert isinstance(change.new, list) is isinstance(change.old, list), change
    if change.path.endswith("num_frames"):
        assert about.frames is not None and change.new > 1, change
        assert (change.new - about.frames.first) % about.frames.step == 0, change
    if change.path.endswith(("width", "height")):
        assert change.new % about.divisible_by == 0 and change.new < change.old, change
    if case.stage == "train":
        assert change.lever != "sampling", case
    if change.lever in ("layer_offloading", "quantization"):
        assert settings(case.job).written("network"), case


def test_a_locked_key_is_never_touched_and_another_lever_is_found(matrix: list[Corrected]) -> None:
    found = 0
    for case in matrix:
        if case.with_lock is not None:
            lock = case.changes[0].path
            assert not any(locked(change.path, [lock]) for change in case.with_lock.changes), (case, lock)
            keys = [note.key for note in case.with_lock.notes]
            assert case.with_lock.changes or "correct.nothing_left" in keys
            assert "correct.locked" in keys or "correct.companion_locked" in keys, (case, lock)
            found += bool(case.with_lock.changes)
    assert found > 1000


@pytest.mark.parametrize("arch", ["flux", "wan22_14b:t2v", "sdxl", "ltx2", "minimax_h3", "ace_step_15", "no_such_arch"])
@pytest.mark.parametrize("stage", STAGES)
def test_one_lever_after_the_other_comes_to_an_end(arch: str, stage: Stage) -> None:
    job, seen = read_job(SHAPES["heavy"](arch, "video")), set()
    while (found := correct(job, _diagnosis(stage), "next", comments=None)).changes:
        assert found.job is not None and found.job.text not in seen
        job = found.job
        seen.add(job.text)
        assert len(seen) < 50
    assert "correct.nothing_left" in [note.key for note in found.notes]


@pytest.mark.ai_toolkit
def test_ai_toolkit_builds_every_corrected_job(matrix: list[Corrected], capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [case.job for case in matrix]
    jobs += [found.job for case in matrix for found in (case.correction, case.with_lock) if found and found.job]
    count = _build(jobs)
    with capsys.disabled():
        print(f"\nAI Toolkit built its config classes from {count} different jobs")


@pytest.mark.ai_toolkit
def test_ai_toolkit_builds_its_own_examples_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = []
    for file in sorted(Path(_setting("HEADROOM_AI_TOOLKIT"), "config", "examples").rglob("train_*.y*ml")):
        with suppress(JobError):  # one of them is no valid YAML
            job = read_job_file(file)
            for stage in STAGES:
                jobs += [correct(job, _diagnosis(stage), strength).job for strength in STRENGTHS]
    count = _build([job for job in jobs if job])
    assert count > 100
    with capsys.disabled():
        print(f"\nAI Toolkit built its config classes from {count} corrections of its own examples")


def _setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        pytest.skip("no AI Toolkit: set HEADROOM_AI_TOOLKIT and HEADROOM_AI_TOOLKIT_PYTHON")
    return value


def _build(jobs: list[Job]) -> int:
    """Has AI Toolkit build its config classes from each different job; how many there were."""
    folder, python = _setting("HEADROOM_AI_TOOLKIT"), _setting("HEADROOM_AI_TOOLKIT_PYTHON")
    processes = [job.data["config"]["process"][0] for job in {job.text: job for job in jobs}.values()]
    script = Path(__file__).with_name("ai_toolkit_configs.py")
    ran = subprocess.run(
        [python, str(script), folder], input=json.dumps(processes), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert {error for error in json.loads(ran.stdout) if error} == set()
    return len(processes)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            yield from _leaves(item, f"{path}[{at}]")
    else:
        yield path, value


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [] if value is None else [value]
