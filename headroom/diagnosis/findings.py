"""What one pass over a log finds."""

from __future__ import annotations

from dataclasses import dataclass, field

from .bars import Bar


@dataclass(frozen=True)
class Finding:
    """A message found in the log. ``at`` orders what stands in the log; ``cited`` holds its numbered lines."""

    message: str
    says: str
    at: int
    line: int
    text: str
    cited: tuple[tuple[int, str], ...]
    sizes: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class StageMark:
    """A line that belongs to a stage; ``kind`` says how sure: marker, code, hint or bar."""

    stage: str
    kind: str
    at: int
    line: int
    text: str


@dataclass
class Traceback:
    """A traceback, or the visible part of one: where it stands and its frames, outermost first."""

    at: int
    end: int
    line: int
    headed: bool
    frames: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class BarTrack:
    """All repaints of one bar: the first and last of them, and the fastest and slowest second-a-step they show."""

    first: Bar
    last: Bar
    at: int
    end: int
    line: int
    end_line: int
    repaints: int = 1
    fastest: float | None = None
    slowest: float | None = None
    losses: bool = False

    def note(self, bar: Bar) -> None:
        if bar.seconds is not None:
            self.fastest = bar.seconds if self.fastest is None else min(self.fastest, bar.seconds)
            self.slowest = bar.seconds if self.slowest is None else max(self.slowest, bar.seconds)
        self.losses = self.losses or bar.losses


@dataclass
class LogReading:
    """What one pass over a log found. ``counts``: how often each message stood there, a doubled stderr counted once."""

    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    marks: list[StageMark] = field(default_factory=list)
    tracebacks: list[Traceback] = field(default_factory=list)
    bars: list[BarTrack] = field(default_factory=list)
    job_name: str | None = None
    config_json: str | None = None
    lines: int = 0
    size: int = 0
    last_line: tuple[int, str] = (1, "")
