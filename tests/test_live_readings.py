"""What the budget node says of its card between runs, on recorded answers of the driver."""

from __future__ import annotations

from typing import Any

import pytest
from headroom_pack.headroom.memory.budgeting import budget_of_card, card
from headroom_pack.headroom.memory.nvml import GpuReading, read_gpus
from headroom_pack.nodes.live_readings import readings
from recorded_nvml import RECORDINGS, play


def said(monkeypatch: pytest.MonkeyPatch, recording: str, lang: str = "en", **budget: Any) -> dict[str, Any]:
    play(monkeypatch, recording)
    reading: GpuReading = read_gpus()
    gpu = card(reading)
    return readings(reading, gpu, budget_of_card(gpu, **budget) if gpu and budget else None, lang)


def test_the_card_and_the_budget_of_it_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    told = said(monkeypatch, "normal", percent=25)
    assert told["now"] == "NVIDIA GeForce RTX 4090: 8.64 GiB free now, of 23.64 GiB."
    assert told["budget"] == "Budget: at most 5.91 GiB of the card."
    assert told["warning"] == ""
    assert told["used_by"] == ["In use by python3.11 (process 4711): 14 GiB", "In use by Xorg (process 4712): 0.25 GiB"]


def test_a_budget_that_does_not_fit_now_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "8.64 GiB free now, less than the budget" in said(monkeypatch, "normal", gib=20.0)["warning"]


def test_without_a_budget_only_the_card_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, "normal")["budget"] is None


@pytest.mark.parametrize("recording", ["no_driver", "no_gpu", "gone_meanwhile", "not_loaded"])
def test_without_a_gpu_it_says_so_why_and_that_a_run_is_counted(
    monkeypatch: pytest.MonkeyPatch, recording: str
) -> None:
    told = said(monkeypatch, recording)
    assert "No NVIDIA GPU" in told["now"] and "counted against the budget" in told["now"]
    assert told["warning"] and told["used_by"] == []


@pytest.mark.parametrize(
    ("recording", "hint"),
    [("windows", "as on Windows"), ("wsl", "as on WSL"), ("container", "cannot be seen from here")],
)
def test_what_the_driver_does_not_tell_of_others_is_said(
    monkeypatch: pytest.MonkeyPatch, recording: str, hint: str
) -> None:
    assert hint in said(monkeypatch, recording)["used_by"][-1]


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_answer_can_be_said(monkeypatch: pytest.MonkeyPatch, recording: str, lang: str) -> None:
    told = said(monkeypatch, recording, lang)
    assert told["now"] and "None" not in str({key: value for key, value in told.items() if key != "budget"})
