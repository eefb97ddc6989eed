"""AI Toolkit as an engine: started, followed, asked, cancelled and judged, with a real process in its place."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_programs import until

from headroom.contracts import Budget, Job, Steps
from headroom.job import read_job
from headroom.job.stranger import Rules
from headroom.memory.budgeting import BudgetError
from headroom.memory.nvml import Gpu, GpuReading
from headroom.report.wording import words
from headroom.run import ai_toolkit, ai_toolkit_run, gpu_lock, processes
from headroom.run.ai_toolkit import AiToolkit, AiToolkitRun, JobRefused
from headroom.run.downloads import DiskTooSmall, Download, Forecast
from headroom.run.engine import Engine, EngineRun
from headroom.run.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in speaks POSIX signals")
STANDIN = Path(__file__).parent / "standins" / "probe.py"
JOB = """\
job: extension
config:
  name: "{name}"  # mine
  process:
    - type: sd_trainer
      training_folder: elsewhere
      datasets:
        - folder_path: data
      train: {{steps: 5}}
      model: {{name_or_path: none/at-all, arch: sd1}}
      standin: {how}
"""


def _job(how: str = "finish", name: str = "cat") -> Job:
    return read_job(JOB.format(how=how, name=name))


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AiToolkit:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody is asked what the jobs' models hold
    toolkit = tmp_path / "ai-toolkit"
    (toolkit / "data").mkdir(parents=True)
    (toolkit / "data" / "a.txt").write_text("a cat", encoding="utf-8")
    rules = Rules(output=toolkit, reads=(toolkit,), base=toolkit)
    store = Store(tmp_path / "runs")
    python, locks = Path(sys.executable), tmp_path / "locks"
    return AiToolkit(toolkit, python, rules, store, locks=locks, probe=STANDIN, gpus=GpuReading)


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(tmp_path).encode() not in path.read_bytes(), path
        except OSError:
            continue


def _ended(run: AiToolkitRun) -> Any:
    result = run.wait(30)
    assert result is not None
    return result


def _waiting(run: AiToolkitRun) -> None:
    until(lambda: "waiting" in run.run.log.read_text(encoding="utf-8"), 20)


def test_it_is_an_engine(engine: AiToolkit) -> None:
    an_engine: Engine = engine
    run: EngineRun = an_engine.start(_job())
    assert (an_engine.name, run.wait(30) is not None) == ("ai-toolkit", True)


# ---- success


def test_a_run_finishes_and_says_what_it_made(engine: AiToolkit) -> None:
    run = engine.start(_job())
    kinds = [event.event for event in run.events]  # as they come, to the end
    result = _ended(run)
    assert (result.outcome, result.engine, result.steps, run.short_of) == ("finished", "ai-toolkit", Steps(5, 5, 0), ())
    assert kinds[-1] == "finished" and kinds.count("step") == 5
    checkpoint = run.run.output / "cat" / "cat.safetensors"
    assert result.checkpoint == str(checkpoint) and checkpoint.is_file()
    assert result.peaks == {"load": (1.25, 2.0), "train": (3.0, 2.5)}
    assert result.diagnosis is None
    assert [(each["kind"], each["step"]) for each in run.run.index()] == [("checkpoint", 2), ("checkpoint", 5)]
    assert run.run.state == "finished"
    assert not (engine.toolkit / "elsewhere").exists()


def test_the_same_work_is_not_done_twice(engine: AiToolkit) -> None:
    first = engine.start(_job())
    result = _ended(first)
    again = engine.start(_job())
    assert (again.folder, again.result) == (first.folder, result)
    assert [event.event for event in again.events] == [event.event for event in first.events]
    again.ask("save")
    again.cancel()
    (engine.toolkit / "data" / "a.txt").write_text("a dog", encoding="utf-8")
    changed = engine.start(_job())
    forced = replace(engine, force=True)
    assert changed.folder != first.folder
    assert _ended(changed).checkpoint != result.checkpoint  # what the first made is not written over
    other = forced.start(_job())
    assert other.folder not in (first.folder, changed.folder)
    _ended(other)
    assert Path(result.checkpoint).is_file()


@pytest.mark.parametrize(
    ("how", "short"),
    [
        ("exit_code", "exit_code"),
        ("no_event", "finished_event"),
        ("fewer_steps", "steps"),
        ("no_final_save", "final_save"),
        ("torn_checkpoint", "checkpoint_opens"),
    ],
)
def test_a_run_that_is_short_of_one_thing_did_not_finish(engine: AiToolkit, how: str, short: str) -> None:
    run = engine.start(_job(how))
    result = _ended(run)
    assert (result.outcome, run.short_of) == ("failed", (short,))
    assert result.diagnosis is not None
    assert json.loads((run.folder / "result.json").read_text(encoding="utf-8"))["short_of"] == [short]
    again = engine.start(_job(how))
    assert again.folder != run.folder  # never served as if it had
    _ended(again)


def test_a_load_check_needs_no_steps_and_makes_nothing(engine: AiToolkit) -> None:
    run = engine.start(_job(), until="load")
    result = _ended(run)
    assert (result.outcome, result.checkpoint, run.short_of) == ("finished", None, ())
    assert list(result.peaks) == ["load"]
    trained = engine.start(_job())
    assert (trained.folder != run.folder, _ended(trained).outcome) == (True, "finished")


# ---- failure


def test_a_failure_carries_the_cores_own_diagnosis(engine: AiToolkit) -> None:
    result = _ended(engine.start(_job("load_out_of_memory")))
    assert result.outcome == "failed"
    assert (result.diagnosis.cause, result.diagnosis.stage, result.diagnosis.failure_class) == ("vram", "load", "A")
    assert result.diagnosis.numbers.requested_gib == 2.0


def test_a_trainer_that_is_killed_from_outside_failed_and_keeps_its_checkpoint(engine: AiToolkit) -> None:
    run = engine.start(_job("kill_itself"))
    result = _ended(run)
    assert (result.outcome, result.diagnosis.cause) == ("failed", "host_ram")
    assert json.loads((run.folder / "result.json").read_text(encoding="utf-8"))["exit_code"] == -9


@pytest.mark.parametrize("what", ["python", "probe"])
def test_what_cannot_be_started_is_said_and_leaves_no_run(engine: AiToolkit, what: str, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    if what == "python":
        with pytest.raises(OSError, match="none"):
            replace(engine, python=missing).start(_job())
        assert engine.store.list() == []
    else:
        result = _ended(replace(engine, probe=missing).start(_job()))
        assert result.outcome == "failed" and result.diagnosis is not None


def test_a_gpu_held_by_another_run_is_said_and_leaves_no_run(engine: AiToolkit) -> None:
    card = Budget(gpu="GPU-1")
    first = engine.start(_job("wait"), card)
    with pytest.raises(gpu_lock.GpuBusy) as busy:
        engine.start(_job("finish", "dog"), card)
    assert busy.value.holder and busy.value.holder.run == f"cat/{first.folder.name}"
    assert [run.folder for run in engine.store.list()] == [first.folder]
    first.cancel()
    _ended(first)
    assert _ended(engine.start(_job("finish", "dog"), card)).outcome == "finished"


def test_a_disk_too_small_for_the_model_is_said_and_leaves_no_run(
    engine: AiToolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    certain = Download("none/at-all", 9.0, 9.0, "hub")
    monkeypatch.setattr(ai_toolkit, "forecast", lambda *_: Forecast((certain,), Path("cache"), 1.0, ()))
    with pytest.raises(DiskTooSmall, match="9 GiB"):
        engine.start(_job())
    assert engine.store.list() == []


def test_a_read_only_place_is_said(engine: AiToolkit, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OSError):
        replace(engine, store=Store(tmp_path / "file" / "runs")).start(_job())


def test_a_result_that_cannot_be_kept_still_ends_the_wait(engine: AiToolkit) -> None:
    run = engine.start(_job("wait"))
    _waiting(run)
    (run.folder / "result.json.new").mkdir()
    run.ask("stop")
    assert _ended(run).outcome == "cancelled"
    assert run.run.state == "unfinished"


# ---- while it runs


def test_requests_are_carried_out_and_indexed(engine: AiToolkit) -> None:
    run = engine.start(_job("wait"))
    _waiting(run)
    assert run.result is None and run.run.state == "running"
    run.ask("sample")
    assert _ended(run).outcome == "finished"
    assert [each["step"] for each in run.run.index() if each["kind"] == "sample"] == [3]


def test_a_stop_that_was_asked_for_keeps_its_checkpoint(engine: AiToolkit) -> None:
    run = engine.start(_job("wait"))
    _waiting(run)
    run.ask("stop")
    result = _ended(run)
    assert result.outcome == "cancelled" and result.diagnosis is None
    assert result.checkpoint == str(run.run.output / "cat" / "cat_000000003.safetensors")
    again = engine.start(_job("finish"))
    assert again.run.output == run.run.output  # AI Toolkit goes on from there
    _ended(again)


def test_the_next_run_does_not_go_on_from_a_torn_checkpoint(engine: AiToolkit) -> None:
    first = engine.start(_job("torn_checkpoint"))
    _ended(first)
    torn = first.run.output / "cat" / "cat.safetensors"
    second = engine.start(_job("no_final_save"))
    _ended(second)
    assert second.run.output == first.run.output
    assert not torn.exists() and torn.with_name("~cat.safetensors.torn").is_file()


@pytest.mark.parametrize("how", ["wait", "stubborn"])
def test_a_cancel_returns_at_once_and_everything_is_gone_within_five_seconds(engine: AiToolkit, how: str) -> None:
    run = engine.start(_job(how))
    _waiting(run)
    trainer = run._trainer
    assert trainer and trainer.pid
    begun = time.monotonic()
    run.cancel()
    assert time.monotonic() - begun < 1
    result = run.wait(5)
    assert result and result.outcome == "cancelled"
    assert not processes.alive(trainer.pid) and not processes.alive(trainer.supervisor.pid)
    assert result.checkpoint and result.checkpoint.endswith("cat_000000002.safetensors")
    assert run.run.state == "cancelled"
    assert engine.store.finished(run.run.digest) is None


def test_read_gives_what_is_new_and_never_waits(engine: AiToolkit) -> None:
    run = engine.start(_job("wait"))
    _waiting(run)
    before = run.read()
    assert [event.keys["step"] for event in before if event.event == "step"] == [1, 2]
    assert run.read() == []
    run.ask("stop")
    _ended(run)
    assert [*before, *run.read()] == list(run.events)


def test_a_cancel_may_save_first(engine: AiToolkit) -> None:
    run = engine.start(_job("wait"))
    _waiting(run)
    run.cancel(save=True)
    result = _ended(run)
    assert (result.outcome, Path(result.checkpoint).name) == ("cancelled", "cat_000000003.safetensors")


def test_a_cancel_that_saves_does_not_wait_for_ever(engine: AiToolkit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ai_toolkit_run, "_SAVE_SECONDS", 1)
    run = engine.start(_job("deaf"))
    _waiting(run)
    run.cancel(save=True)
    result = _ended(run)
    assert (result.outcome, Path(result.checkpoint).name) == ("cancelled", "cat_000000002.safetensors")


# ---- its budget


def _of(free: float) -> GpuReading:
    return GpuReading("550", (Gpu(0, "GPU-0", "Card", 24.0, free, ()), Gpu(1, "GPU-1", "Other", 48.0, 47.0, ())))


def _told(run: AiToolkitRun) -> dict[str, Any]:
    _ended(run)
    return json.loads(next(event for event in run.events if event.event == "note").keys["text"])


def test_without_a_budget_it_takes_what_is_free_on_the_first_card(engine: AiToolkit) -> None:
    run = replace(engine, gpus=lambda: _of(20.0)).start(_job())
    told = _told(run)
    assert run.budget == Budget(vram_gib=19.5, gpu="GPU-0")
    assert told["argv"][told["argv"].index("--vram-gib") + 1] == "19.5"
    assert told["env"]["CUDA_VISIBLE_DEVICES"] == "GPU-0"


def test_it_is_pinned_to_the_budgets_card(engine: AiToolkit) -> None:
    told = _told(replace(engine, gpus=lambda: _of(20.0)).start(_job(), Budget(vram_gib=40, gpu="GPU-1")))
    assert told["env"]["CUDA_VISIBLE_DEVICES"] == "GPU-1"


def test_a_card_that_is_not_there_or_full_is_said_and_leaves_no_run(engine: AiToolkit) -> None:
    own = replace(engine, gpus=lambda: _of(0.25))
    with pytest.raises(BudgetError, match="GPU-9"):
        own.start(_job(), Budget(gpu="GPU-9"))
    with pytest.raises(BudgetError, match=r"0\.25"):
        own.start(_job())
    assert own.store.list() == []


def test_a_budget_that_only_watches_caps_nothing_and_tells_what_went_above_it(engine: AiToolkit) -> None:
    run = engine.start(_job(), Budget(vram_gib=2.9, host_ram_gib=2.4, enforce=False))
    assert not {"--vram-gib", "--host-ram-gib"} & set(_told(run)["argv"])
    assert run.result and [words(each) for each in run.result.warnings if each.key.startswith("budget")] == [
        "3 GiB of VRAM were taken in a training step: more than the budget of 2.9 GiB.",
        "2.5 GiB of host RAM were taken in a training step: more than the budget of 2.4 GiB.",
    ]
    again = engine.start(_job())
    assert again.folder == run.folder and again.result == run.result


def test_less_free_than_the_budget_grants_is_said_before_it_runs(engine: AiToolkit) -> None:
    run = replace(engine, gpus=lambda: _of(10.0)).start(_job(), Budget(vram_gib=12.0))
    assert [each.key for each in run.warnings] == ["budget.less_free", "downloads.rule"]
    assert _ended(run).warnings[0] == run.warnings[0]


# ---- how it is started


def test_ai_toolkit_gets_its_options_and_nothing_of_our_python(
    engine: AiToolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "PYTHONPATH": "/ours", "VIRTUAL_ENV": "/ours"}
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    own = replace(engine, largest_bucket="continue", hf_token="hf_secret")
    run = own.start(_job(), Budget(vram_gib=0.035, host_ram_gib=8, gpu="GPU-1"), "train")
    _ended(run)
    seen = json.loads(next(event for event in run.events if event.event == "note").keys["text"])
    pairs = dict(zip(seen["argv"][::2], seen["argv"][1::2], strict=True))
    assert pairs == {
        "--toolkit": str(engine.toolkit),
        "--job": str(run.run.job),
        "--events": str(run.run.events),
        "--control": "0",
        "--until": "train",
        "--vram-gib": "0.035",
        "--host-ram-gib": "8",
        "--largest-bucket": "continue",
    }
    assert seen["cwd"] == str(engine.toolkit)
    assert not set(foreign) & set(seen["env"])
    assert (seen["env"]["CUDA_VISIBLE_DEVICES"], seen["env"]["HF_TOKEN"]) == ("GPU-1", "hf_secret")
    assert "hf_secret" not in repr(own)
    for path in run.folder.glob("*.json"):
        assert "hf_secret" not in path.read_text(encoding="utf-8")


def test_settings_that_are_relative_paths_hold_where_we_run(
    engine: AiToolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADROOM_RUNS", "runs")
    own = replace(engine, toolkit=Path("ai-toolkit"), rules=None, store=Store(), probe=Path(os.path.relpath(STANDIN)))
    result = _ended(own.start(_job()))
    assert result.outcome == "finished" and Path(result.checkpoint).is_absolute() and Path(result.checkpoint).is_file()


def test_the_users_own_job_is_run_as_it_is(engine: AiToolkit) -> None:
    run = replace(engine, rules=None).start(_job())
    result = _ended(run)
    assert run.run.job.read_text(encoding="utf-8") == _job().text and run.changes == ()
    assert Path(result.checkpoint) == engine.toolkit / "elsewhere" / "cat" / "cat.safetensors"
    assert Path(run.run.index()[-1]["path"]) == Path(result.checkpoint)


# ---- a stranger's job


def test_a_strangers_job_is_run_below_the_store_whatever_it_says(engine: AiToolkit, tmp_path: Path) -> None:
    job = read_job(_job().text.replace("training_folder: elsewhere", "training_folder: /nowhere/else"))
    run = engine.start(job)
    result = _ended(run)
    assert result.outcome == "finished" and run.run.output in Path(result.checkpoint).parents
    assert [change.path for change in run.changes] == ["training_folder"]
    before, after = job.text.splitlines(), run.run.job.read_text(encoding="utf-8").splitlines()
    assert [new for old, new in zip(before, after, strict=True) if old != new] == [f"      training_folder: {run.run.output}"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ai-toolkit", "runs"]


@pytest.mark.parametrize("name", ["../../../escaped", "/etc/evil", "x" * 300, "nul", "a/b"])
def test_a_strangers_job_that_is_refused_leaves_no_run(engine: AiToolkit, tmp_path: Path, name: str) -> None:
    with pytest.raises(JobRefused) as refused:
        engine.start(_job(name=name))
    assert len(refused.value.sentences) == 1 and str(refused.value)
    assert engine.store.list() == []
    assert [path for path in tmp_path.rglob("*") if "escaped" in path.name or path.suffix == ".safetensors"] == []


@pytest.mark.parametrize("name", ["../../../escaped", "x" * 300, "nul"])
def test_no_name_leads_out_of_the_store_for_the_users_own_job_either(engine: AiToolkit, name: str) -> None:
    run = replace(engine, rules=None).start(_job("load_out_of_memory", name))
    assert run.folder.resolve().parent.parent == engine.store.folder.resolve()
    _ended(run)
