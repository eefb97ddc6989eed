"""Which checkpoint a run ended with, and whether it opens: read without torch, held to AI Toolkit's own log lines."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headroom.contracts import Event, Known, Steps
from headroom.job import read_job
from headroom.run.checkpoints import files_of, final_save, opens, set_aside_torn, whole_safetensors
from headroom.run.judging import judge, peaks
from headroom.run.store import Run

TENSORS = {
    "__metadata__": {"name": "cat"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
    "c": {"dtype": "F8_E4M3", "shape": [], "data_offsets": [32, 33]},
}


def _bytes(header: Any, data: int) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cat.safetensors"
    path.write_bytes(_bytes(TENSORS, 33))
    return path


def test_a_whole_file_opens(file: Path) -> None:
    assert whole_safetensors(file) and opens(file)


def test_a_file_cut_at_any_byte_does_not(file: Path) -> None:
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        assert not opens(file), size
    file.write_bytes(whole + b"\0")
    assert not opens(file)


def test_a_torn_checkpoint_is_set_aside_and_whole_ones_stay(tmp_path: Path, file: Path) -> None:
    torn = tmp_path / "cat" / "cat_000000004.safetensors"
    torn.parent.mkdir()
    torn.write_bytes(file.read_bytes()[:-1])
    assert set_aside_torn(tmp_path) == [torn.with_name("~cat_000000004.safetensors.torn")]
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["cat.safetensors", "~cat_000000004.safetensors.torn"]
    assert set_aside_torn(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("a", {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 24]}),
        ("a", {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]}),
        ("a", {"dtype": "F32", "shape": [2, 3]}),
        ("a", {"dtype": "F32", "shape": [-2, -3], "data_offsets": [0, 24]}),
        ("a", {"dtype": "F32", "shape": "23", "data_offsets": [0, 24]}),
        ("a", {"dtype": "F32", "shape": [2, 3], "data_offsets": [24, 0]}),
        ("a", {"dtype": ["F32"], "shape": [2, 3], "data_offsets": [0, 24]}),
        ("a", None),
        ("a", 3),
    ],
)
def test_a_header_that_does_not_fit_its_file_does_not(file: Path, name: str, entry: Any) -> None:
    file.write_bytes(_bytes({**TENSORS, name: entry}, 33))
    assert not opens(file)


@pytest.mark.parametrize(
    "text", [b"", b"\0" * 8, b"\xff" * 16, _bytes([], 0), _bytes({}, 0), _bytes({"__metadata__": {}}, 0), b"\x02\0\0\0\0\0\0\0{]", b"<html>not found</html>"]
)
def test_what_is_no_checkpoint_does_not_open(file: Path, text: bytes) -> None:
    file.write_bytes(text)
    assert not opens(file)


def test_a_pair_of_experts_is_known_by_the_name_that_is_printed(file: Path) -> None:
    high, low = (file.with_name(f"wan_{part}_noise.safetensors") for part in ("high", "low"))
    for each in (high, low):
        each.write_bytes(file.read_bytes())
    assert files_of(file.with_name("wan.safetensors")) == [high, low]
    assert opens(file.with_name("wan.safetensors"))
    low.write_bytes(low.read_bytes()[:-1])
    assert not opens(file.with_name("wan.safetensors"))


def test_a_folder_and_a_pickle_open_when_all_their_files_do(tmp_path: Path, file: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    assert not opens(folder)
    (folder / "model.safetensors").write_bytes(file.read_bytes())
    with zipfile.ZipFile(folder / "other.pt", "w") as written:
        written.writestr("data.pkl", "x")
    assert opens(folder)
    (folder / "other.pt").write_bytes(b"no archive")
    assert not opens(folder)


JOB = read_job("job: extension\nconfig: {name: cat, process: [{type: sd_trainer, train: {steps: 6}}]}\n")
BAR = "\rcat: 100%|██████████| 6/6 [00:00<00:00,  6.33it/s, lr: 1.0e-04 loss: 1.134e+00]"


@pytest.mark.parametrize(
    ("log", "final"),
    [
        ("", None),
        ("Saving at step 5\nSaved checkpoint to /o/cat/cat_000000005.safetensors\n", None),
        ("Saving at step 5\nSaved checkpoint to /o/cat_000000005.safetensors\nSaved optimizer to /o/optimizer.pt\n" + BAR + "\nSaved checkpoint to /o/cat.safetensors\n", "/o/cat.safetensors"),
        (BAR + "\rSaved checkpoint to /o/a b/猫.safetensors", "/o/a b/猫.safetensors"),
        ("Saved checkpoint to /o/cat_000000003.safetensors\n", None),  # asked for, not announced
        ("Saving at step 6\r\nSaved checkpoint to /o/cat_000000006.safetensors\r\nSaved checkpoint to C:\\o\\cat.safetensors\r\n", "C:\\o\\cat.safetensors"),
    ],
)  # fmt: skip
def test_the_final_save_is_the_one_that_was_not_announced(tmp_path: Path, log: str, final: str | None) -> None:
    path = tmp_path / "log.txt"
    path.write_text(log, encoding="utf-8", newline="")
    assert final_save(path) == (Path(final) if final else None)


def _judged(tmp_path: Path, log: str, events: list[Event], until: str | None = None, code: int | None = 0) -> Any:
    run = Run(tmp_path / "cat" / "run-0001", "cat", "d", "ai-toolkit", until, 0.0)
    run.folder.mkdir(parents=True)
    run.log.write_text(log, encoding="utf-8")
    return judge(run, JOB, events, Known(exit_code=code), False, tmp_path)


FINISHED = Event(9, 1.0, "finished", {"how": "finished"})


def test_relative_paths_start_where_ai_toolkit_ran(tmp_path: Path, file: Path) -> None:
    log = "# Running job: cat\n" + BAR + "\nSaved checkpoint to cat.safetensors\n"
    judgement = _judged(tmp_path, log, [FINISHED])
    assert (judgement.short_of, judgement.result.checkpoint) == ((), str(file))
    assert judgement.result.steps == Steps(6, 6)


def test_without_a_bar_the_probes_steps_count_and_skipped_ones_with_them(tmp_path: Path, file: Path) -> None:
    events = [
        Event(1, 0.1, "step", {"step": 5, "total": 6}),
        Event(2, 0.2, "skipped", {"step": 6}),
        FINISHED,
    ]
    judgement = _judged(tmp_path, "Saved checkpoint to cat.safetensors\n", events)
    assert (judgement.short_of, judgement.result.steps) == ((), Steps(6, 6, 1))


def test_a_run_whose_supervisor_was_killed_has_no_exit_code_and_did_not_finish(tmp_path: Path, file: Path) -> None:
    log = "# Running job: cat\n" + BAR + "\nSaved checkpoint to cat.safetensors\n"
    judgement = _judged(tmp_path, log, [FINISHED], code=None)
    assert (judgement.result.outcome, judgement.short_of) == ("failed", ("exit_code",))
    assert judgement.result.checkpoint == str(file)  # to go on from


def test_nothing_at_all_is_a_failure(tmp_path: Path) -> None:
    run = Run(tmp_path / "cat" / "run-0001", "cat", "d", "ai-toolkit", None, 0.0)
    judgement = judge(run, JOB, [], Known(), False, tmp_path)
    assert judgement.result.outcome == "failed"
    assert judgement.short_of == ("exit_code", "finished_event", "steps", "final_save")


def test_the_highest_peak_of_each_phase_counts() -> None:
    def end(phase: str, **peak: Any) -> Event:
        return Event(1, 0.0, "phase", {"phase": phase, "state": "end", "peak": peak})

    events = [
        end("load", allocated_gib=1.0, reserved_gib=2.0, device_gib=None, host_gib=3.0),
        end("sample", reserved_gib=4.0, device_gib=5.0),
        end("sample", reserved_gib=9.0, device_gib=4.0, host_gib=1.0),
        end("save"),
        Event(2, 0.0, "phase", {"phase": "train", "state": "begin"}),
        Event(3, 0.0, "phase", {"phase": "train", "state": "end", "peak": "none"}),
    ]
    assert peaks(events) == {"load": (2.0, 3.0), "sample": (5.0, 1.0), "save": (None, None)}
