"""The probe on a GPU, with a simulated ``torch.cuda`` that refuses what the real one refuses."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from headroom.probe.gauges import CudaGauge, Room
from headroom.probe.launch import Probe, parser

GIB = 2**30


class Cuda(ModuleType):
    """One visible card, number 0 whatever its UUID; questions about memory before it is in use are an error here.

    The real ones would answer with nothing (statistics) or make the context for it (``mem_get_info``).
    """

    def __init__(self, total_gib: int = 24, visible: int = 1) -> None:
        super().__init__("torch.cuda")
        self.total, self.visible = total_gib * GIB, visible
        self.used = False
        self.allocated = self.reserved = self.most_allocated = self.most_reserved = 0
        self.fraction: float | None = None

    def is_available(self) -> bool:
        return self.visible > 0

    def is_initialized(self) -> bool:
        return self.used

    def get_device_properties(self, device: int) -> Any:
        self._lazy_init(device)
        return SimpleNamespace(total_memory=self.total)

    def set_per_process_memory_fraction(self, fraction: float, device: int) -> None:
        self._lazy_init(device)
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        self.fraction = fraction

    def take(self, gib: float) -> None:
        self._lazy_init(0)
        self.allocated += int(gib * GIB)
        self.reserved = max(self.reserved, self.allocated)
        self.most_allocated = max(self.most_allocated, self.allocated)
        self.most_reserved = max(self.most_reserved, self.reserved)

    def give_back(self, gib: float) -> None:
        self.allocated -= int(gib * GIB)  # what was reserved stays so

    def reset_peak_memory_stats(self, device: int) -> None:
        self._in_use(device)
        self.most_allocated, self.most_reserved = self.allocated, self.reserved

    def max_memory_allocated(self, device: int) -> int:
        return self._in_use(device) or self.most_allocated

    def max_memory_reserved(self, device: int) -> int:
        return self._in_use(device) or self.most_reserved

    def memory_allocated(self, device: int) -> int:
        return self._in_use(device) or self.allocated

    def memory_reserved(self, device: int) -> int:
        return self._in_use(device) or self.reserved

    def mem_get_info(self, device: int) -> tuple[int, int]:
        self._in_use(device)
        return self.total - self.reserved - GIB // 2, self.total

    def _lazy_init(self, device: int) -> None:
        assert device < self.visible, "invalid device ordinal"
        self.used = True

    def _in_use(self, device: int) -> int:
        assert self.used, "this would make the context"
        assert device < self.visible
        return 0


def options(tmp_path: Path, *more: str) -> argparse.Namespace:
    needed = ["--toolkit", str(tmp_path), "--job", "job.yaml", "--events", str(tmp_path / "events")]
    return parser().parse_args([*needed, *more])


def module_with_trainer() -> Any:
    return SimpleNamespace(BaseSDTrainProcess=type("BaseSDTrainProcess", (), {"run": lambda self: None}))


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake = SimpleNamespace(cuda=Cuda())
    monkeypatch.setitem(sys.modules, "torch", fake)  # type: ignore[arg-type]
    return fake


def test_nothing_is_asked_of_a_card_that_is_not_in_use(torch: Any) -> None:
    gauge = CudaGauge(torch)
    gauge.begin()
    assert gauge.peak()["allocated_gib"] is None and gauge.now()["reserved_gib"] is None and gauge.room() is None
    assert not torch.cuda.used


def test_peaks_are_those_since_the_phase_began(torch: Any) -> None:
    gauge = CudaGauge(torch)
    torch.cuda.take(8)
    torch.cuda.give_back(6)
    gauge.begin()
    torch.cuda.take(1)
    peak, now = gauge.peak(), gauge.now()
    assert (peak["allocated_gib"], peak["reserved_gib"]) == (3.0, 8.0)
    torch.cuda.give_back(1)
    now = gauge.now()
    assert (now["allocated_gib"], now["reserved_gib"], now["device_gib"]) == (2.0, 8.0, None)
    assert gauge.peak()["allocated_gib"] == 3.0


def test_room_is_what_is_free_and_what_torch_holds_unused_but_never_above_the_cap(torch: Any) -> None:
    gauge = CudaGauge(torch)
    torch.cuda.take(8)
    torch.cuda.give_back(6)
    assert gauge.room() == Room(allocated_gib=2.0, free_gib=15.5 + 6.0)
    gauge.cap(10.0)
    assert gauge.room() == Room(2.0, 8.0)
    assert torch.cuda.fraction == 10 / 24


@pytest.mark.parametrize(("vram_gib", "fraction"), [("12", 11.5 / 24), ("24", 23.5 / 24), ("80", 1.0), ("0.25", 0.0)])
def test_the_budget_less_the_context_is_torchs_cap_before_anything_is_loaded(
    tmp_path: Path, torch: Any, vram_gib: str, fraction: float
) -> None:
    probe = Probe(options(tmp_path, "--vram-gib", vram_gib))
    probe.on_torch(torch)
    assert not torch.cuda.used  # torch was only imported
    probe.on_trainer(module_with_trainer())
    assert torch.cuda.fraction == pytest.approx(fraction)


def test_without_a_budget_the_card_is_left_alone(tmp_path: Path, torch: Any) -> None:
    probe = Probe(options(tmp_path))
    probe.on_torch(torch)
    probe.on_trainer(module_with_trainer())
    assert torch.cuda.fraction is None and not torch.cuda.used
    assert isinstance(probe.phases.gauge, CudaGauge)


def test_a_hidden_card_is_none(tmp_path: Path, torch: Any) -> None:
    torch.cuda.visible = 0
    probe = Probe(options(tmp_path))
    probe.on_torch(torch)
    assert not isinstance(probe.phases.gauge, CudaGauge)
