"""Runs on disk: found again only when finished, never overwritten, and no crash loses more than a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from run_programs import ROOT

from headroom.contracts import Diagnosis, RunResult, Steps, say
from headroom.job import read_job
from headroom.run.fingerprint import fingerprint
from headroom.run.names import folder_name
from headroom.run.store import Run, RunExists, RunInUse, Store, checkpoint_as

JOB = """\
job: extension
config:
  name: cat
  process:
    - type: sd_trainer
      training_folder: output
      datasets:
        - folder_path: data
          caption_ext: txt
      train:
        steps: 10
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def _finish(run: Run, **also: object) -> Path:
    checkpoint = run.output / "cat.safetensors"
    checkpoint.write_bytes(b"weights of " + run.folder.name.encode())
    result = RunResult("finished", "ai-toolkit", str(run.folder), Steps(10, 10), str(checkpoint))
    run.write_result(result, checkpoint_as=checkpoint_as(checkpoint), **also)
    return checkpoint


# ---- names


@pytest.mark.parametrize("name", ["cat", "my LoRA v2.1", "猫 (花)", "a-b_c.d", "LPT10", "console"])
def test_a_legal_name_stays(name: str) -> None:
    assert folder_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["../../etc", "..", ".", "", " ", "/", "a/b", "a\\b", "C:\\x", "CON", "nul.txt", "com1", "Lpt9.log", "COM\u00b9", "x" * 300, "猫" * 300,
     "ends.", "ends ", ".hidden", "a\x00b", "tab\t", "que?stion", "*", "\u202eexe", "\ud800", "cat@2"],
)  # fmt: skip
def test_a_name_that_is_not_is_made_legal_and_stays_apart(name: str, tmp_path: Path) -> None:
    made = folder_name(name)
    assert made != name
    assert len(made.encode()) <= 140
    assert not set(made) & set('<>:"/\\|?*') and made.isprintable()
    assert not made.startswith(".") and made.strip(" .") == made
    assert made.split(".")[0].upper() not in ("CON", "NUL", "COM1", "LPT9", "COM\u00b9")
    (tmp_path / made).mkdir()
    assert [path.name for path in tmp_path.iterdir()] == [made]
    assert folder_name(name) == made
    assert folder_name(name + "!") != made


def test_different_names_never_share_a_folder() -> None:
    names = ["a/b", "a_b", "a:b", "x" * 300, "x" * 301, "../a", "a", ".a"]
    assert len({folder_name(name) for name in names}) == len(names)


# ---- the place


def test_the_settings_say_where_runs_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_RUNS", str(tmp_path / "mine"))
    assert Store().folder == tmp_path / "mine"
    monkeypatch.setenv("HEADROOM_RUNS", "mine")
    assert Store().folder == Path.cwd() / "mine"
    monkeypatch.delenv("HEADROOM_RUNS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert Store().folder.parts[-2:] == ("headroom", "runs")
    assert Store().list() == []


# ---- beginning


def test_every_attempt_has_a_folder_and_attempts_share_the_output(store: Store) -> None:
    first = store.begin("cat", "d1", "ai-toolkit", None)
    second = store.begin("cat", "d2", "ai-toolkit", "load")
    assert [run.folder.name for run in (first, second)] == ["run-0001", "run-0002"]
    assert first.output == second.output and first.output.is_dir()
    assert store.list() == [first, second]
    assert [run.state for run in store.list()] == ["unfinished", "unfinished"]


def test_a_fresh_start_shares_nothing_and_a_later_resume_goes_on_from_it(store: Store) -> None:
    first = store.begin("cat", "d", "ai-toolkit", None)
    fresh = store.begin("cat", "d", "ai-toolkit", None, "fresh")
    again = store.begin("cat", "d", "ai-toolkit", None, "resume")
    assert first.folder.parent.name == "cat" and fresh.folder.parent.name == "cat@2"
    assert again.folder == fresh.folder.parent / "run-0002"
    with pytest.raises(RunExists):
        store.begin("cat", "d", "ai-toolkit", None, "fail")
    assert store.begin("cat@2", "d", "ai-toolkit", None).output != fresh.output
    assert store.begin("dog", "d", "ai-toolkit", None, "fail").folder.parent.name == "dog"


def test_what_a_finished_run_made_is_not_written_over(store: Store) -> None:
    checked = store.begin("cat", "d", "ai-toolkit", "load")
    checked.write_result(RunResult("finished", "ai-toolkit", str(checked.folder)))  # a load check makes nothing
    trained = store.begin("cat", "d", "ai-toolkit", None)
    assert trained.output == checked.output
    _finish(trained)
    assert store.begin("cat", "d2", "ai-toolkit", None).output != trained.output


def test_two_runs_never_share_an_output_at_once(store: Store) -> None:
    first = store.begin("cat", "d", "ai-toolkit", None)
    hold = first.hold()
    with pytest.raises(RunInUse):
        store.begin("cat", "d", "ai-toolkit", None)
    assert store.begin("cat", "d", "ai-toolkit", None, "fresh").output != first.output
    hold.release()


def test_a_name_cannot_lead_out_of_the_store(store: Store, tmp_path: Path) -> None:
    for name in ("../../escaped", "/etc/x", "x" * 300, "nul"):
        run = store.begin(name, "d", "ai-toolkit", None)
        assert run.folder.resolve().parent.parent == store.folder.resolve()
        assert store.show(str(run.folder)).name == name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


def test_programs_that_begin_at_once_get_different_folders(store: Store) -> None:
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom pathlib import Path\nfrom headroom.run.store import Store\nfor _ in range(20): print(Store(Path({str(store.folder)!r})).begin('cat', 'd', 'e', None).folder)"
    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    folders = [line for each in both for line in each.communicate()[0].split()]
    assert len(folders) == len(set(folders)) == 40


def test_a_job_is_kept_as_run_and_not_written_twice(store: Store) -> None:
    run = store.begin("cat", "d", "ai-toolkit", None)
    text = JOB.replace("\n", "\r\n") + "# 注释\r\n"
    path = store.keep_job(run, read_job(text))
    assert path == run.job and path.read_bytes() == text.encode()
    with pytest.raises(FileExistsError):
        store.keep_job(run, read_job(JOB))


# ---- results


def test_a_finished_run_of_the_same_work_is_found_again(store: Store) -> None:
    run = store.begin("cat", "same", "ai-toolkit", None)
    assert store.finished("same") is None
    _finish(run)
    assert store.finished("same") == run
    assert store.finished("other") is None
    assert run.state == "finished"


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_a_run_that_did_not_finish_is_never_found(store: Store, outcome: str) -> None:
    run = store.begin("cat", "same", "ai-toolkit", None)
    run.write_result(RunResult(outcome, "ai-toolkit", str(run.folder)))  # type: ignore[arg-type]
    assert store.finished("same") is None
    assert run.state == outcome


@pytest.mark.parametrize("harm", ["removed", "replaced", "cut"])
def test_a_finished_run_whose_checkpoint_is_not_as_it_was_is_not_found(store: Store, harm: str) -> None:
    checkpoint = _finish(store.begin("cat", "same", "ai-toolkit", None))
    if harm == "removed":
        checkpoint.unlink()
    elif harm == "cut":
        checkpoint.write_bytes(checkpoint.read_bytes()[:-1])
    else:
        os.utime(checkpoint, ns=(1, 1))
    assert store.finished("same") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system with named pipes")
def test_a_pipe_among_the_pictures_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"picture")
    job = read_job(json.dumps({"job": "extension", "config": {"name": "x", "process": [{"type": "sd_trainer", "datasets": [{"folder_path": str(folder)}]}]}}))
    before = fingerprint(job)
    os.mkfifo(folder / "b.png")
    assert fingerprint(job) == before


def test_the_pair_of_two_experts_is_known_again_by_both_files(tmp_path: Path) -> None:
    pair = tmp_path / "wan.safetensors"  # as AI Toolkit prints it; the files are called otherwise
    for part in ("high", "low"):
        (tmp_path / f"wan_{part}_noise.safetensors").write_bytes(part.encode())
    known = checkpoint_as(pair)
    assert known[0] == len("highlow")
    (tmp_path / "wan_low_noise.safetensors").write_bytes(b"changed")
    assert checkpoint_as(pair) != known
    (tmp_path / "wan_low_noise.safetensors").unlink()
    assert checkpoint_as(pair) != known
    (tmp_path / "wan_high_noise.safetensors").unlink()
    with pytest.raises(FileNotFoundError):
        checkpoint_as(pair)


def test_a_result_is_written_once(store: Store) -> None:
    run = store.begin("cat", "d", "ai-toolkit", None)
    _finish(run)
    before = run.result()
    with pytest.raises(FileExistsError):
        run.write_result(RunResult("failed", "ai-toolkit", str(run.folder)))
    assert run.result() == before


def test_a_result_keeps_its_diagnosis_in_no_language(store: Store) -> None:
    run = store.begin("cat", "d", "ai-toolkit", None)
    diagnosis = Diagnosis(True, "B", "vram", "train", "change_job", 0.9, (say("a.key", stage=say("stage.train")),))
    run.write_result(RunResult("failed", "ai-toolkit", str(run.folder), peaks={"load": (1.5, None)}, diagnosis=diagnosis))
    result = run.result()
    assert result is not None
    assert result["diagnosis"]["summary"] == [{"key": "a.key", "values": {"stage": {"key": "stage.train", "values": {}}}}]
    assert result["peaks"] == {"load": [1.5, None]}


def test_a_crash_at_any_byte_of_a_result_leaves_the_run_unfinished(store: Store) -> None:
    run = store.begin("cat", "same", "ai-toolkit", None)
    _finish(run)
    whole = (run.folder / "result.json").read_bytes()
    (run.folder / "result.json").unlink()
    for size in range(0, len(whole), 3):
        (run.folder / "result.json.new").write_bytes(whole[:size])
        assert run.state == "unfinished" and store.finished("same") is None
    for size in range(len(whole)):  # and where a disk breaks the promise of a rename
        (run.folder / "result.json").write_bytes(whole[:size])
        assert run.state == "unfinished" and store.finished("same") is None


def test_a_full_disk_leaves_no_half_result(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = store.begin("cat", "d", "ai-toolkit", None)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        run.write_result(RunResult("finished", "ai-toolkit", str(run.folder)))
    assert run.state == "unfinished"
    assert not [path.name for path in run.folder.iterdir() if "result" in path.name]


# ---- the index


def test_the_index_lists_samples_and_checkpoints(store: Store) -> None:
    run = store.begin("cat", "d", "ai-toolkit", None)
    assert run.index() == []
    run.add("sample", run.output / "图 1.jpg", 5)
    run.add("checkpoint", run.output / "cat.safetensors", None)
    assert run.index() == [
        {"kind": "sample", "path": str(run.output / "图 1.jpg"), "step": 5},
        {"kind": "checkpoint", "path": str(run.output / "cat.safetensors"), "step": None},
    ]


def test_a_crash_at_any_byte_of_the_index_loses_the_last_line_at_most(store: Store) -> None:
    run = store.begin("cat", "d", "ai-toolkit", None)
    for step in range(3):
        run.add("sample", run.output / f"图{step}.jpg", step)
    whole, entries = (run.folder / "index.jsonl").read_bytes(), run.index()
    for size in range(len(whole) + 1):
        (run.folder / "index.jsonl").write_bytes(whole[:size])
        lines = whole[:size].count(b"\n")
        assert run.index() == entries[:lines]
        run.add("checkpoint", run.output / "c", 9)
        after = run.index()
        assert after[:lines] == entries[:lines] and after[-1]["kind"] == "checkpoint"


# ---- list, show, remove


def test_what_is_no_run_is_left_out(store: Store) -> None:
    run = store.begin("cat", "d", "ai-toolkit", None)
    (store.folder / ".store").mkdir()
    (store.folder / "file.txt").write_text("x", encoding="utf-8")
    (store.folder / "mine" / "run-0001").mkdir(parents=True)
    for index, text in enumerate(["{", "[]", "{}", json.dumps({"v": 1, "name": "x"})]):
        folder = store.folder / "broken" / f"run-{index:04d}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(text, encoding="utf-8")
    assert store.list() == [run]


@pytest.mark.parametrize("name", ["cat", "cat/output", "../outside/cat/run-0001", "none/run-0001", "cat/run-0009", "/", ""])
def test_what_is_not_in_the_store_is_not_shown(store: Store, name: str) -> None:
    store.begin("cat", "d", "ai-toolkit", None)
    Store(store.folder.parent / "outside").begin("cat", "d", "ai-toolkit", None)
    with pytest.raises(KeyError):
        store.show(name)


def test_removing_a_run_keeps_the_others_and_the_checkpoints(store: Store) -> None:
    first, second = (store.begin("cat", "d", "ai-toolkit", None) for _ in range(2))
    checkpoint = _finish(first)
    store.remove(first)
    assert store.list() == [second] and checkpoint.exists()
    assert store.begin("cat", "d", "ai-toolkit", None).folder.name == "run-0003"
    store.remove(second, checkpoints=True)  # another run is left beside it
    assert checkpoint.exists()
    store.remove(store.list()[0], checkpoints=True)
    assert not checkpoint.exists() and list(store.folder.iterdir()) == []


def test_nothing_outside_the_store_is_removed(store: Store) -> None:
    other = Store(store.folder.parent / "outside").begin("cat", "d", "ai-toolkit", None)
    with pytest.raises(KeyError):
        store.remove(other)
    link = store.folder / "link" / "run-0001"
    link.parent.mkdir(parents=True)
    link.symlink_to(other.folder, target_is_directory=True)
    with pytest.raises(KeyError):
        store.remove(replace(other, folder=link))
    assert other.folder.exists()


@pytest.fixture
def holder(store: Store) -> Iterator[tuple[Run, subprocess.Popen[bytes]]]:
    run = store.begin("cat", "d", "ai-toolkit", None)
    script = f"import sys, time; sys.path.insert(0, {str(ROOT)!r})\nfrom pathlib import Path\nfrom headroom.run.store import Store\nhold = Store(Path({str(store.folder)!r})).show('cat/run-0001').hold()\nprint('held', flush=True)\ntime.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"held\n"
    yield run, process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_run_runs_until_its_program_ends_and_is_not_removed_meanwhile(
    store: Store, holder: tuple[Run, subprocess.Popen[bytes]]
) -> None:
    run, process = holder
    assert run.state == "running"
    with pytest.raises(RunInUse):
        store.remove(run)
    process.kill()
    process.wait()
    assert run.state == "unfinished"
    store.remove(run)
    assert store.list() == []


# ---- the same work


def _dataset(folder: Path) -> Path:
    data = folder / "data"
    data.mkdir(parents=True)
    (data / "a.jpg").write_bytes(b"picture" * 40000)
    (data / "a.txt").write_text("a cat", encoding="utf-8")
    return data


def test_the_same_job_and_dataset_have_the_same_digest(tmp_path: Path) -> None:
    data = _dataset(tmp_path)
    digest = fingerprint(read_job(JOB), tmp_path)
    (data / "_latent_cache").mkdir()
    (data / "_latent_cache" / "a.safetensors").write_bytes(b"cache")
    (data / ".aitk_size.json").write_text("{}", encoding="utf-8")
    os.utime(data / "a.jpg", ns=(1, 1))
    commented = JOB.replace("  name: cat\n", "  # mine\n  name: 'cat'\n")
    assert fingerprint(read_job(commented), tmp_path) == digest
    assert fingerprint(read_job(JOB.replace("training_folder: output", "training_folder: data")), tmp_path) == digest
    (tmp_path / "other").mkdir()
    _dataset(tmp_path / "other")
    assert fingerprint(read_job(JOB), tmp_path / "other") == digest


@pytest.mark.parametrize("change", ["job", "caption", "end of a picture", "name", "more", "fewer", "also"])
def test_other_work_has_another_digest(tmp_path: Path, change: str) -> None:
    data = _dataset(tmp_path)
    digest = fingerprint(read_job(JOB), tmp_path, until=None)
    text, until = JOB, None
    if change == "job":
        text = JOB.replace("steps: 10", "steps: 11")
    elif change == "caption":
        (data / "a.txt").write_text("a dog", encoding="utf-8")
    elif change == "end of a picture":
        (data / "a.jpg").write_bytes((data / "a.jpg").read_bytes()[:-1] + b"!")
    elif change == "name":
        (data / "a.txt").rename(data / "b.txt")
    elif change == "more":
        (data / "c.jpg").write_bytes(b"")
    elif change == "fewer":
        (data / "a.txt").unlink()
    else:
        until = "load"
    assert fingerprint(read_job(text), tmp_path, until=until) != digest
