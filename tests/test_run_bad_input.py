"""What is wrong around a run is one clear error, and nothing is lost or left behind by it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from run_programs import until

from headroom.contracts import Job
from headroom.job import read_job
from headroom.memory.nvml import GpuReading
from headroom.report.wording import words
from headroom.run.ai_toolkit import AiToolkit
from headroom.run.here import engine_here
from headroom.run.locate import LocateError
from headroom.run.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in speaks POSIX signals")
STANDINS = Path(__file__).parent / "standins"
JOB = """\
job: extension
config:
  name: cat
  process:
    - {{type: sd_trainer, training_folder: {out}, train: {{steps: 5}}, model: {{name_or_path: {out}}}, standin: {how}}}
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HEADROOM_AI_TOOLKIT", "HEADROOM_AI_TOOLKIT_PYTHON", "HEADROOM_KEEP_RUNS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def engine(tmp_path: Path) -> AiToolkit:
    toolkit = tmp_path / "ai-toolkit"
    toolkit.mkdir()
    store, locks = Store(tmp_path / "runs"), tmp_path / "locks"
    probe = STANDINS / "probe.py"
    return AiToolkit(toolkit, Path(sys.executable), None, store, locks=locks, probe=probe, gpus=GpuReading)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The runs folder as a disk of its own, of a quarter of a MiB."""
    folder = tmp_path / "runs"
    folder.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("a small disk for the tests; run them as root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _job(out: Path, how: str = "finish") -> Job:
    return read_job(JOB.format(out=out, how=how))


def _fill(folder: Path) -> Path:
    """A file that takes all that is left."""
    filler = folder / ".filler"
    with pytest.raises(OSError, match="No space left"), open(filler, "wb", buffering=0) as file:
        while True:
            assert file.write(bytes(4096)) == 4096 or file.write(bytes(1))
    return filler


def test_without_ai_toolkit_it_is_said_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(LocateError, match="HEADROOM_AI_TOOLKIT is not set"):
        engine_here(None, Store(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_an_ai_toolkit_without_its_python_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_AI_TOOLKIT", str(STANDINS / "ai_toolkit"))
    with pytest.raises(LocateError, match=r"HEADROOM_AI_TOOLKIT_PYTHON"):
        engine_here(None, Store(tmp_path / "runs"))


def test_the_settings_make_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "headroom.json"
    settings.write_text(
        f'{{"HEADROOM_AI_TOOLKIT": "{STANDINS / "ai_toolkit"}", "HEADROOM_AI_TOOLKIT_PYTHON": "{sys.executable}",'
        ' "HEADROOM_KEEP_RUNS": "1", "HF_TOKEN": "hf_x"}',
        encoding="utf-8",
    )
    monkeypatch.delenv("HF_TOKEN", raising=False)
    engine = engine_here(settings, Store(tmp_path / "runs"), force=True, largest_bucket="off")
    assert (engine.toolkit, engine.python) == (STANDINS / "ai_toolkit", Path(sys.executable))
    assert (engine.keep, engine.hf_token, engine.force, engine.largest_bucket) == (True, "hf_x", True, "off")
    monkeypatch.setenv("HEADROOM_KEEP_RUNS", "0")
    assert not engine_here(settings, engine.store).keep


def test_a_python_without_torch_fails_with_a_diagnosis_that_says_so(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    own = AiToolkit(
        STANDINS / "ai_toolkit", tmp_path / "bare/bin/python", None, Store(tmp_path / "runs"), gpus=GpuReading
    )
    result = own.start(_job(tmp_path)).wait(60)
    assert result and result.outcome == "failed" and result.diagnosis
    assert not result.diagnosis.memory_failure
    assert any("No module named" in each.text for each in result.diagnosis.evidence)


@pytest.mark.parametrize("program", ["true", "false"])
def test_a_program_that_is_no_python_never_makes_a_finished_run(engine: AiToolkit, program: str) -> None:
    found = shutil.which(program)
    assert found
    run = replace(engine, python=Path(found)).start(_job(engine.toolkit))
    result = run.wait(60)
    assert result and result.outcome == "failed" and result.diagnosis
    assert words(result.diagnosis.summary[0])
    assert "finished_event" in run.short_of


def test_a_full_disk_at_the_start_is_an_error_and_leaves_no_run(engine: AiToolkit, small_disk: Path) -> None:
    _fill(small_disk)
    for keep in (False, True):
        with pytest.raises(OSError, match="No space left"):
            replace(engine, keep=keep).start(_job(engine.toolkit))
    assert [path.name for path in small_disk.iterdir()] == [".filler"]


@pytest.mark.parametrize("keep", [False, True])
def test_a_disk_that_fills_up_ends_the_wait_and_loses_nothing_that_was_there(
    engine: AiToolkit, small_disk: Path, keep: bool
) -> None:
    own = replace(engine, keep=keep)
    run = own.start(_job(small_disk, "wait"))
    until(lambda: "waiting" in run.run.log.read_text(encoding="utf-8"), 20)
    before = run.read()
    filler = _fill(small_disk)
    run.cancel() if keep else run.ask("stop")
    result = run.wait(60)
    assert result and result.outcome in ("failed", "cancelled")
    filler.unlink()
    again = own.start(_job(small_disk, "finish"))
    assert again.folder != run.folder and again.run.output == run.run.output
    ended = again.wait(60)
    assert ended and ended.outcome == "finished"
    assert list(run.events)[: len(before)] == before


def test_a_place_that_cannot_be_written_is_an_error_and_leaves_no_run(engine: AiToolkit, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(OSError, match="Read-only"):
        engine.start(_job(engine.toolkit))
    assert list(small_disk.iterdir()) == []
