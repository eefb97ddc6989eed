"""``python -m headroom doctor``: everything that is here, everything that is not, and exit code 0 either way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded_nvml import RECORDINGS, play

from headroom import doctor, places
from headroom.memory.machine import Machine, Space
from headroom.report.wording import LANGUAGES

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ("HEADROOM_AI_TOOLKIT", "HEADROOM_AI_TOOLKIT_PYTHON", "HEADROOM_COMFYUI", "HEADROOM_RUNS")
TORCH = "import types\n__version__ = '2.9.1'\nversion = types.SimpleNamespace(cuda={cuda!r})\n"


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(places, "user_data", lambda: tmp_path / "data")
    monkeypatch.setattr(doctor, "read_machine", lambda: Machine("linux", Space(64.0, 40.5), False, Space(31.0, 30.0)))


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An AI Toolkit whose Python is this one, with a module called torch where it is started."""
    folder = tmp_path / "ai-toolkit"
    for name in ("toolkit", "jobs"):
        (folder / name).mkdir(parents=True)
    for name, text in {
        "run.py": "",
        "version.py": "VERSION = '0.12.26'",
        "torch.py": TORCH.format(cuda="12.8"),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("HEADROOM_AI_TOOLKIT", str(folder))
    monkeypatch.setenv("HEADROOM_AI_TOOLKIT_PYTHON", sys.executable)
    return folder


def keys(found: doctor.Checkup) -> list[str]:
    return [note.key for note in found.notes]


def answer(found: doctor.Checkup, lang: str = "en") -> dict[str, Any]:
    return json.loads(json.dumps(doctor.as_json(found, lang)))


def test_a_sound_machine_is_told_whole_and_without_a_note(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, "normal")
    found = answer(doctor.examine())
    assert found["notes"] == []
    assert found["ai_toolkit"] == {"folder": str(toolkit), "found_by": "setting", "version": "0.12.26", "commit": None}
    assert found["python"]["torch"] == "2.9.1" and found["python"]["path"] == sys.executable
    assert found["driver"] == "570.133.20" and found["gpus"][0]["total_gib"] == pytest.approx(23.64)
    assert found["gpus"][0]["processes"][0] == {"pid": 4711, "used_gib": 14.0, "name": "python3.11"}
    assert found["ram"] == {"total_gib": 64.0, "free_gib": 40.5, "limited": False}
    assert found["shm"] == {"total_gib": 31.0, "free_gib": 30.0} and found["system"] == "linux"
    assert [disk["holds"] for disk in found["disks"]] == ["runs", "models", "ai_toolkit"]
    assert all(disk["total_gib"] > 0 for disk in found["disks"])


def test_people_read_the_same_in_lines(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, "normal")
    text = doctor.as_text(doctor.examine(), "en")
    assert f"AI Toolkit: version 0.12.26, commit not known, in {toolkit}\n" in text
    assert "GPU 0: NVIDIA GeForce RTX 4090, 8.64 of 23.64 GiB free, GPU-5b2c8f0e" in text
    assert "  used by python3.11 (process 4711): 14 GiB\n" in text
    assert "  used by not known (process 900): 0.5 GiB\n" in text
    assert "RAM: 40.5 of 64 GiB free\n" in text and "/dev/shm: 30 of 31 GiB free\n" in text


def test_a_bare_machine_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, "no_driver")
    monkeypatch.setattr(doctor, "read_machine", lambda: Machine(None, None))
    found = doctor.examine()
    told = answer(found)
    assert [told[name] for name in ("ai_toolkit", "python", "driver", "system", "ram", "shm")] == [None] * 6
    assert keys(found) == ["locate.none", "doctor.nvml.no_driver"]
    assert "NVIDIA driver: not known" in doctor.as_text(found, "en")


def test_a_toolkit_without_a_working_python_is_still_told(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, "normal")
    (toolkit / "torch.py").write_text("raise ImportError('no torch here')", encoding="utf-8")
    found = doctor.examine()
    assert found.toolkit is not None and found.python is None
    assert keys(found) == ["locate.no_torch"] and "none that can be used" in doctor.as_text(found, "en")


@pytest.mark.parametrize(
    ("recording", "said"), [("normal", ["doctor.torch_without_cuda"]), ("no_driver", ["doctor.nvml.no_driver"])]
)
def test_a_torch_without_cuda_matters_where_there_is_a_gpu(
    toolkit: Path, monkeypatch: pytest.MonkeyPatch, recording: str, said: list[str]
) -> None:
    play(monkeypatch, recording)
    (toolkit / "torch.py").write_text(TORCH.format(cuda=None), encoding="utf-8")
    assert keys(doctor.examine()) == said


@pytest.mark.parametrize(("gib", "said"), [(0.0625, True), (8.0, False)])
def test_a_small_dev_shm_is_said(monkeypatch: pytest.MonkeyPatch, gib: float, said: bool) -> None:
    play(monkeypatch, "normal")
    monkeypatch.setattr(doctor, "read_machine", lambda: Machine("linux", Space(8.0, 4.0), True, Space(gib, gib)))
    found = doctor.examine()
    assert ("doctor.shm_small" in keys(found)) is said
    assert "limit set for this container" in doctor.as_text(found, "en")


def test_disks_are_those_that_a_run_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, "no_driver")
    monkeypatch.setenv("HEADROOM_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    disks = {disk.holds: disk.path for disk in doctor.examine().disks}
    assert disks == {"runs": tmp_path / "runs", "models": tmp_path / "hf" / "hub"}
    assert {disk.holds: disk.path for disk in doctor.examine(runs=tmp_path / "out").disks}["runs"] == tmp_path / "out"


def test_a_disk_that_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, "no_driver")
    monkeypatch.setattr(doctor, "space_at", lambda path: None)
    found = doctor.examine()
    assert keys(found)[2:] == ["doctor.disk_unreadable"] * 2
    assert all(disk.keys() == {"holds", "path"} for disk in answer(found)["disks"])


@pytest.mark.parametrize("recording", RECORDINGS)
def test_every_answer_of_the_driver_is_told_in_both_languages(
    toolkit: Path, monkeypatch: pytest.MonkeyPatch, recording: str
) -> None:
    play(monkeypatch, recording)
    found = doctor.examine()
    english, chinese = (doctor.as_text(found, lang) for lang in LANGUAGES)
    assert len(english.splitlines()) == len(chinese.splitlines())
    assert any("\u4e00" <= character <= "\u9fff" for character in chinese)
    assert len(answer(found, "zh")["notes"]) == len(found.notes)


def headroom(*arguments: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
    env = {name: value for name, value in os.environ.items() if name not in SETTINGS} | settings
    command = [sys.executable, "-m", "headroom", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False, timeout=120)


def test_the_verb_prints_one_object_and_exits_with_0(toolkit: Path) -> None:
    run = headroom("doctor", "--json", HEADROOM_AI_TOOLKIT=str(toolkit), HEADROOM_AI_TOOLKIT_PYTHON=sys.executable)
    found = json.loads(run.stdout)
    assert run.returncode == 0 and run.stderr == b""
    assert found["ai_toolkit"]["version"] == "0.12.26" and found["python"]["torch"] == "2.9.1"


def test_a_wrong_setting_is_an_answer_with_the_way_out(tmp_path: Path) -> None:
    run = headroom("doctor", "--lang", "en", HEADROOM_AI_TOOLKIT=str(tmp_path))
    text = run.stdout.decode()
    assert run.returncode == 0 and run.stderr == b""
    assert "AI Toolkit: not found" in text and "run.py is missing" in text


def test_the_verb_reads_the_settings_of_comfyui(toolkit: Path, tmp_path: Path) -> None:
    settings = tmp_path / "ComfyUI" / "user" / "headroom.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"HEADROOM_AI_TOOLKIT": str(toolkit)}), encoding="utf-8")
    run = headroom("doctor", "--json", HEADROOM_COMFYUI=str(tmp_path / "ComfyUI"))
    assert json.loads(run.stdout)["ai_toolkit"]["folder"] == str(toolkit)


def test_the_verb_speaks_the_asked_language() -> None:
    run = headroom("doctor", "--lang", "zh")
    assert run.returncode == 0 and any("\u4e00" <= character <= "\u9fff" for character in run.stdout.decode())
