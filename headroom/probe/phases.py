"""The phases of a run as they begin and end, each with its own peak."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .channel import Channel
from .gauges import Gauge, Peak, worst

ORDER = ("load", "cache", "baseline_sample", "train")


class Reached(KeyboardInterrupt):
    """The phase the run was asked to go to is over. AI Toolkit ends a job in order on this one (``run.py``)."""


class Phases:
    """Writes ``phase`` events. A phase inside another (a preview while training) takes its peak for itself alone."""

    def __init__(self, channel: Channel, gauge: Gauge, until: str = "train") -> None:
        self.gauge = gauge
        self.reached = False
        self._channel = channel
        self._until = until
        self._open: list[tuple[str, Peak]] = []

    @property
    def current(self) -> str:
        """The innermost open phase; ``startup`` before the first."""
        return self._open[-1][0] if self._open else "startup"

    def inside(self, phase: str) -> bool:
        return any(name == phase for name, _ in self._open)

    def begin(self, phase: str) -> None:
        self._channel.write("phase", phase=phase, state="begin")
        self._keep()
        self._open.append((phase, {}))
        self.gauge.begin()

    def end(self, phase: str) -> None:
        """End a phase, and what is still open in it. Nothing happens where it is not open."""
        while self.inside(phase):
            self._keep()
            name, peak = self._open.pop()
            self._channel.write("phase", phase=name, state="end", peak=peak)
            self.gauge.begin()

    def end_all(self) -> None:
        if self._open:
            self.end(self._open[0][0])

    def pass_by(self, phase: str) -> None:
        """End a phase that went well; raises ``Reached`` where the run was to go no further."""
        self.end(phase)
        if phase in ORDER and ORDER.index(phase) >= ORDER.index(self._until) and phase != "train":
            self.reached = True
            raise Reached(f"the run was asked to end after {self._until}")

    def watch(self) -> None:
        """Let the gauge begin anew; what it showed so far counts for the phase."""
        self._keep()
        self.gauge.begin()

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        self.begin(phase)
        try:
            yield
        finally:
            self.end(phase)

    def _keep(self) -> None:
        if self._open:
            name, peak = self._open[-1]
            self._open[-1] = (name, worst(peak, self.gauge.peak()))
