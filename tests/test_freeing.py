"""Free memory of a card is watched until it has come back, no longer than that and no longer than allowed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headroom.memory.budgeting import BudgetError
from headroom.memory.freeing import Freed, wait_for_free
from headroom.memory.nvml import Gpu, GpuProcess, GpuReading
from headroom.report.wording import words


class Time:
    """Passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _wait(free: Callable[[float], float | None], need: float | None = None, most: float = 10.0) -> Freed:
    time = Time()

    def read() -> GpuReading:
        gpu = Gpu(0, "GPU-1", "Card", 24.0, free(time.now - 100), (GpuProcess(7, 12.0, "python"),))
        return GpuReading("550", (gpu,))

    return wait_for_free("GPU-1", need, most, read=read, clock=time.clock, sleep=time.sleep)


def test_enough_at_once_waits_for_nothing() -> None:
    assert _wait(lambda t: 20.0, need=12.0).seconds == 0


def test_it_waits_until_enough_has_come_back_and_no_longer() -> None:
    seen = _wait(lambda t: 4.0 + 5 * min(t, 3.0), need=12.0)
    assert seen.enough and seen.seconds == pytest.approx(1.6, abs=0.11)
    assert (seen.first_gib, seen.free_gib) == (4.0, pytest.approx(12.0, abs=0.5))
    assert words(seen.sentences[0]).startswith("8")


def test_what_does_not_come_back_is_said_with_who_has_it() -> None:
    seen = _wait(lambda t: 4.0, need=12.0)
    assert seen.enough is False and seen.seconds == pytest.approx(2.0, abs=0.11)
    assert [words(each) for each in seen.sentences] == [
        "Card has 4 GiB free, less than the 12 GiB that the run may take. It is used by: python (7)."
    ]


def test_it_never_waits_longer_than_allowed() -> None:
    assert _wait(lambda t: 4.0 + t, need=24.0, most=5.0).seconds == pytest.approx(5.0, abs=0.11)


def test_with_nothing_asked_for_it_waits_until_no_more_comes_back() -> None:
    seen = _wait(lambda t: 4.0 + 5 * min(t, 3.0))
    assert (seen.free_gib, seen.enough) == (19.0, None)
    assert seen.seconds == pytest.approx(5.0, abs=0.21)


def test_a_driver_that_tells_nothing_is_not_waited_for() -> None:
    assert _wait(lambda t: None, need=12.0) == Freed(_card(None), None, None, 0.0, None)
    assert wait_for_free(None, 12.0, read=GpuReading) == Freed(None, None, None, 0.0, None)
    seen = _wait(lambda t: 4.0 if t < 1 else None, need=12.0)
    assert seen.free_gib == 4.0 and seen.enough is False


def test_an_unknown_card_is_an_error() -> None:
    with pytest.raises(BudgetError, match="GPU-9"):
        wait_for_free("GPU-9", read=lambda: GpuReading("550", (_card(4.0),)))


def _card(free: float | None) -> Gpu:
    return Gpu(0, "GPU-1", "Card", 24.0, free, (GpuProcess(7, 12.0, "python"),))
