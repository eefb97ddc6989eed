"""Budgets made from what the driver says of a card."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recorded_nvml import play

from headroom.contracts import Budget
from headroom.memory.budgeting import BudgetError, above, budget_of_card, card, default_budget, visible
from headroom.memory.nvml import Gpu, GpuProcess, GpuReading, read_gpus
from headroom.report.wording import words

CARDS = (
    Gpu(0, "GPU-aa11", "A", 24.0, 20.0, ()),
    Gpu(1, "GPU-bb22", "B", 48.0, 0.25, (GpuProcess(7, 47.0, "python"),)),
)
READING = GpuReading("550", CARDS)


@pytest.mark.parametrize(
    ("named", "seen"),
    [
        (None, "AB"),
        ("1", "B"),
        ("1,0", "BA"),
        ("GPU-bb", "B"),
        ("0, GPU-bb22", "AB"),
        ("0,9,1", "A"),
        ("", ""),
        ("-1", ""),
        ("none", ""),
    ],
)
def test_the_cards_that_may_be_used_are_those_cuda_would_show(named: str | None, seen: str) -> None:
    environment = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    assert "".join(gpu.name for gpu in visible(READING, environment)) == seen


def test_the_default_is_what_is_free_less_a_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert default_budget(READING) == Budget(vram_gib=19.5, gpu="GPU-aa11")
    assert default_budget(READING, reserve_gib=4) == Budget(vram_gib=16.0, gpu="GPU-aa11")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(BudgetError, match=r"0\.25 GiB free.*python \(7\)"):
        default_budget(READING)


def test_no_card_or_no_number_is_no_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert default_budget(GpuReading()) == Budget()
    assert default_budget(GpuReading(), "GPU-aa11") == Budget(gpu="GPU-aa11")
    silent = GpuReading("550", (replace(CARDS[0], total_gib=None, free_gib=None),))
    assert default_budget(silent) == Budget(gpu="GPU-aa11")


def test_a_card_that_is_not_there_is_said_with_those_that_are() -> None:
    with pytest.raises(BudgetError, match=r"GPU-cc.*A \(GPU-aa11\), B \(GPU-bb22\)"):
        card(READING, "GPU-cc")


def test_a_budget_of_a_card_never_goes_into_the_reserve() -> None:
    a = CARDS[0]
    assert budget_of_card(a, gib=12).vram_gib == 12
    assert budget_of_card(a, percent=50).vram_gib == 12
    assert budget_of_card(a, gib=10, percent=50).vram_gib == 10
    assert budget_of_card(a, gib=30, reserve_gib=2).vram_gib == 22
    assert budget_of_card(a, percent=100, reserve_gib=2).vram_gib == 22
    watched = budget_of_card(a, reserve_gib=2, host_ram_gib=32, enforce=False)
    assert watched == Budget(vram_gib=22, host_ram_gib=32, gpu="GPU-aa11", enforce=False)


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(BudgetError, match="24 GiB are reserved"):
        budget_of_card(CARDS[0], gib=4, reserve_gib=24)
    unknown = replace(CARDS[0], total_gib=None)
    assert budget_of_card(unknown, gib=4).vram_gib == 4
    with pytest.raises(BudgetError, match="in GiB"):
        budget_of_card(unknown, percent=50)


def test_what_went_above_a_budget_is_told_phase_by_phase() -> None:
    peaks = {"load": (1.0, None), "train": (3.0, 9.0), "sample": (None, 7.0)}
    told = [words(each) for each in above(Budget(vram_gib=2, host_ram_gib=8), peaks)]
    assert told == [
        "3 GiB of VRAM were taken in a training step: more than the budget of 2 GiB.",
        "9 GiB of host RAM were taken in a training step: more than the budget of 8 GiB.",
    ]
    assert above(Budget(), peaks) == ()


def test_the_drivers_recorded_answers_make_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    play(monkeypatch, "normal")
    reading = read_gpus()
    budget = default_budget(reading)
    assert reading.gpus[0].free_gib and budget.vram_gib == reading.gpus[0].free_gib - 0.5
    play(monkeypatch, "mig")
    instance = next(gpu for gpu in read_gpus().gpus if gpu.card)
    assert default_budget(read_gpus(), instance.uuid).gpu == instance.uuid
    for gone in ("no_driver", "no_gpu", "not_loaded"):
        play(monkeypatch, gone)
        assert default_budget(read_gpus()) == Budget()
