"""``python -m headroom runs`` and ``diagnose --run`` on a run folder of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headroom.contracts import Diagnosis, Event, Numbers, RunResult, Steps
from headroom.diagnosis.probed import with_events
from headroom.job import read_job
from headroom.run.events import EventWriter
from headroom.run.store import Run, Store

ROOT = Path(__file__).resolve().parent.parent
JOB = read_job("job: extension\nconfig:\n  name: cat\n  process:\n    - {type: sd_trainer, train: {batch_size: 4}}\n")
NO_NUMBERS = "\n".join(["OOM during training step, skipping batch 3"] * 2) + "\n"
MESSAGE = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.52 GiB"


def headroom(runs: Path, *arguments: object) -> tuple[int, str, str]:
    env = {**os.environ, "HEADROOM_RUNS": str(runs)}
    command = [sys.executable, "-m", "headroom", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def answer(runs: Path, *arguments: object) -> dict[str, Any]:
    code, out, errors = headroom(runs, *arguments, "--json")
    assert code == 0, errors
    return json.loads(out)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def begun(store: Store, name: str = "cat", log: str = "Running 1 job\n") -> Run:
    run = store.begin(name, "digest", "ai-toolkit", None)
    store.keep_job(run, JOB)
    run.log.write_text(log, encoding="utf-8")
    return run


def ended(run: Run, outcome: Any, code: int = 0, checkpoint: Path | None = None) -> Run:
    steps, path = Steps(2, 5, 1), str(checkpoint) if checkpoint else None
    peaks = {"train": (3.5, 2.0)}
    run.write_result(RunResult(outcome, "ai-toolkit", str(run.folder), steps, path, peaks), exit_code=code)
    return run


def test_runs_are_listed_oldest_first_with_how_they_ended(store: Store) -> None:
    first = ended(begun(store), "failed", 1)
    checkpoint = first.output / "cat.safetensors"
    second = ended(begun(store, "dog"), "finished", checkpoint=checkpoint)
    third = begun(store)
    hold = third.hold()
    found = answer(store.folder, "runs")
    assert found["folder"] == str(store.folder)
    assert [(each["run"], each["state"]) for each in found["runs"]] == [
        (str(first.folder), "failed"), (str(second.folder), "finished"), (str(third.folder), "running")
    ]  # fmt: skip
    assert found["runs"][1]["checkpoint"] == str(checkpoint)
    assert found["runs"][0]["steps"] == {"done": 2, "total": 5, "skipped_batches": 1}
    assert found["runs"][0]["peaks"] == {"train": {"vram_gib": 3.5, "host_ram_gib": 2.0}}
    assert (found["runs"][2]["steps"], found["runs"][2]["checkpoint"]) == (None, None)
    hold.release()
    assert answer(store.folder, "runs", "list")["runs"][2]["state"] == "unfinished"
    code, text, _ = headroom(store.folder, "runs", "list", "--lang", "en")
    assert code == 0 and "cat/run-0001" in text and "failed, step 2 of 5" in text


def test_an_empty_store_is_an_answer(store: Store) -> None:
    assert answer(store.folder, "runs") == {"folder": str(store.folder), "runs": []}
    assert headroom(store.folder, "runs", "--lang", "en")[1] == f"There are no runs in {store.folder}.\n"
    assert "没有运行" in headroom(store.folder, "runs", "--lang", "zh")[1]


def test_a_run_is_shown_with_its_files_by_its_name_or_its_folder(store: Store) -> None:
    run = begun(store)
    run.add("checkpoint", run.output / "cat_000000002.safetensors", 2)
    ended(run, "failed", 1)
    for name in ("cat/run-0001", run.folder):
        shown = answer(store.folder, "runs", "show", name)
        assert shown["run"] == str(run.folder) and shown["log"] == str(run.log) and shown["job"] == str(run.job)
        assert [(each["kind"], each["step"]) for each in shown["files"]] == [("checkpoint", 2)]
    _, text, _ = headroom(store.folder, "runs", "show", "cat/run-0001", "--lang", "en")
    assert f'diagnose --run "{run.folder}"' in text and "checkpoint at step 2" in text


def test_removing_takes_the_records_and_leaves_what_was_trained(store: Store) -> None:
    first, second = ended(begun(store), "failed", 1), ended(begun(store), "finished")
    made = first.output / "cat.safetensors"
    made.write_bytes(b"weights")
    assert answer(store.folder, "runs", "remove", "cat/run-0001") == {
        "removed": str(first.folder), "output": str(first.output)
    }  # fmt: skip
    assert not first.folder.exists() and made.exists() and second.folder.exists()
    assert answer(store.folder, "runs", "remove", "cat/run-0002", "--checkpoints")["output"] is None
    assert not made.exists() and answer(store.folder, "runs")["runs"] == []


@pytest.mark.parametrize("name", ["cat/run-0009", "../runs/cat/run-0001", "cat", "/", ""])
@pytest.mark.parametrize("doing", ["show", "remove"])
def test_what_is_no_run_is_named_and_nothing_is_removed(store: Store, doing: str, name: str) -> None:
    run = ended(begun(store), "finished")
    if name.startswith(".."):
        name = "cat/../../elsewhere"
    code, out, errors = headroom(store.folder, "runs", doing, name, "--lang", "en")
    assert (code, out) == (2, "") and len(errors.splitlines()) == 1 and "is no run in" in errors
    assert run.folder.is_dir()


def test_a_run_that_goes_on_is_not_removed(store: Store) -> None:
    run = begun(store)
    hold = run.hold()
    code, _, errors = headroom(store.folder, "runs", "remove", "cat/run-0001", "--lang", "en")
    assert code == 2 and "still goes on" in errors and run.folder.is_dir()
    hold.release()


# ---- diagnose --run


def test_a_run_folder_is_diagnosed_with_its_own_job_and_exit_code(store: Store) -> None:
    run = begun(store, log="Running 1 job\nLoading UNet\n")
    EventWriter(run.events).close()
    ended(run, "failed", 137)
    found = answer(store.folder, "diagnose", "--run", run.folder)
    assert (found["cause"], found["memory_failure"]) == ("host_ram", True)
    assert answer(store.folder, "diagnose", "--run", run.folder, "--exit-code", "1")["rule"] != found["rule"]


def test_events_bring_the_numbers_that_the_log_keeps_to_itself(store: Store) -> None:
    run = begun(store, log=NO_NUMBERS)
    with EventWriter(run.events) as events:
        told = {"message": MESSAGE, "numbers": {"requested_gib": 2.0, "total_gib": 23.52, "allowed_gib": 4.0}}
        events.write("out_of_memory", phase="train", inside="backward", **told)
        events.write("skipped", step=3, bucket=[512, 512, 1], files=["a.png"], **told)
    ended(run, "failed", 1)
    found = answer(store.folder, "diagnose", "--run", run.folder, "--lang", "en")
    assert (found["cause"], found["stage"], found["inside"]) == ("vram", "train", "backward")
    assert found["numbers"] == {"requested_gib": 2.0, "total_gib": 23.52}
    assert found["evidence"][-1]["text"] == MESSAGE and "line 1 of events.jsonl" in found["evidence"][-1]["means"]
    assert any(
        change["path"].endswith("batch_size") or "checkpointing" in change["path"] for change in found["changes"]
    )


def diagnosis(**more: Any) -> Diagnosis:
    known: dict[str, Any] = {"failure_class": "B", "stage": "train", "advice": "change_job", "confidence": 0.9}
    return Diagnosis(**{"memory_failure": True, "cause": "vram", "summary": (), **known, **more})


def event(**keys: Any) -> Event:
    return Event(7, 1.0, "out_of_memory", {"phase": "train", "inside": "forward", "message": MESSAGE, **keys})


def test_what_the_log_says_is_not_said_over() -> None:
    told = diagnosis(numbers=Numbers(requested_gib=1.0))
    assert with_events(told, [event(numbers={"requested_gib": 9.0})]) == told
    elsewhere = diagnosis(stage="load")
    assert with_events(elsewhere, [event(numbers={"requested_gib": 9.0})]) == elsewhere
    assert with_events(told, []) == told


def test_memory_that_only_the_probe_saw_is_a_warning_and_no_verdict() -> None:
    other = diagnosis(memory_failure=False, cause="not_memory", stage="startup")
    found = with_events(other, [event()])
    assert (found.cause, found.numbers) == ("not_memory", Numbers())
    assert [warning.key for warning in found.warnings] == ["warning.probe_saw_memory"]
    assert with_events(found, [event()]) == found
    filled = with_events(diagnosis(), [event(numbers={"requested_gib": 2.0})])
    assert filled.numbers.requested_gib == 2.0 and with_events(filled, [event()]) == filled


@pytest.mark.parametrize("numbers", [None, [], "text", {"requested_gib": "2", "other": 3}])
def test_damaged_numbers_of_an_event_are_none(numbers: Any) -> None:
    assert with_events(diagnosis(), [event(numbers=numbers, phase="nowhere")]).numbers == Numbers()
