"""Where in the run the log is: which bar is training, and which stage a place in the log belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, get_args

from ..contracts import Stage, Steps
from .catalogue import catalogue
from .findings import BarTrack, Finding, LogReading, StageMark, Traceback

_NEAR_LINES = 12  # AI Toolkit prints its error, a result block of seven lines, then the traceback
_BEFORE_TRAINING = ("startup", "load", "cache", "baseline_sample")


@dataclass(frozen=True)
class Place:
    """A stage, what went on inside it where that is known, and the line that shows it."""

    stage: Stage
    inside: str = ""
    line: int = 0
    text: str = ""

    @property
    def before_training(self) -> bool:
        return self.stage in _BEFORE_TRAINING


class Timeline:
    """The stages of one log. ``job_name`` and ``total_steps`` come from the job, where it is known."""

    def __init__(self, reading: LogReading, job_name: str | None, total_steps: int | None) -> None:
        self._reading = reading
        self._names = {name for name in (reading.job_name, job_name) if name}
        self._total_steps = total_steps
        self.training = self._training_bar()
        self._marks = self._all_marks()

    @property
    def steps(self) -> Steps:
        """Done and total of the training bar's last repaint; skipped batches are counted elsewhere."""
        return Steps(self.training.last.done, self.training.last.total) if self.training else Steps()

    def _labelled(self, track: BarTrack) -> str | None:
        label = track.last.label.lower()
        for stage, beginnings in catalogue().bars:
            if label and any(label.startswith(each) for each in beginnings):
                return stage
        return None

    def _training_bar(self) -> BarTrack | None:
        """The bar that starts with the job's name; without a name, one that counts its steps or prints lr and loss."""
        bars = [track for track in self._reading.bars if track.last.label]
        named = [track for track in bars if any(name.endswith(track.last.label) for name in self._names)]
        if named:
            return named[-1]
        if self._reading.job_name:
            return None
        others = [track for track in bars if self._labelled(track) in (None, "train")]
        counted = [track for track in others if self._total_steps and track.last.total == self._total_steps]
        losses = [track for track in others if track.losses]
        labelled = [track for track in others if self._labelled(track) == "train"]
        return next((group[-1] for group in (counted, losses, labelled) if group), None)

    def _all_marks(self) -> list[StageMark]:
        marks = list(self._reading.marks)
        for track in self._reading.bars:
            stage = "train" if track is self.training else self._labelled(track)
            if stage and (stage != "train" or track is self.training):
                text = f"{track.last.label}: {track.last.done}/{track.last.total}"
                marks.append(StageMark(stage, "bar", track.at, track.line, text))
                if track.end != track.at:
                    marks.append(StageMark(stage, "bar", track.end, track.end_line, text))
        return sorted(marks, key=lambda mark: mark.at)

    def _resolved(self, stage: str, at: int) -> Stage:
        if stage == "preview":
            begun = self.training is not None and self.training.at < at
            if begun:
                stage = "sample"
            else:
                known = self._declared_baseline(at) or self.training is not None or bool(self._reading.job_name)
                stage = "baseline_sample" if known else "sample"
        return cast(Stage, stage) if stage in get_args(Stage) else "unknown"

    def _declared_baseline(self, at: int) -> bool:
        return any(mark.stage == "baseline_sample" and mark.at <= at for mark in self._marks)

    def place_of(self, finding: Finding | None) -> Place:
        """The stage a finding fell in: by the frames of its traceback, by source lines near it, by the marks before it.

        Without a finding: where the log ends. A bar repainted after an error says what was open, not what failed; it
        counts only where nothing stands before.
        """
        at = finding.at if finding else self._reading.size
        if finding and (place := self._by_frames(finding)):
            return place
        if finding:
            near = [m for m in self._marks if m.kind in ("code", "hint") and abs(m.line - finding.line) <= _NEAR_LINES]
            if near:
                mark = min(near, key=lambda m: (abs(m.line - finding.line), m.kind))
                return self._place(mark, at)
        elif self._reading.tracebacks:
            last = self._reading.tracebacks[-1]
            if place := self._by_frame_list(last, at):
                return place
            shown = [mark for mark in self._marks if mark.kind == "code" and mark.at >= last.at]
            if shown:
                return self._place(shown[0], at)
        before = [mark for mark in self._marks if mark.at <= at]
        while before:
            mark = before.pop()
            if mark.stage == "save" and self._save_is_over(mark):
                before = [m for m in before if m.stage != "save"]
                continue
            if mark.kind == "code":
                continue
            return self._place(mark, at)
        after = [mark for mark in self._marks if mark.at > at and (mark.stage == "train" or mark.kind == "code")]
        return self._place(after[0], at) if after else Place("unknown")

    def _save_is_over(self, mark: StageMark) -> bool:
        return any(text in mark.text for text in catalogue().ended_by["save"])

    def _place(self, mark: StageMark, at: int) -> Place:
        telling = (each for each in catalogue().markers + catalogue().code if each.inside)
        inside = next((each.inside for each in telling if each.text in mark.text), "")
        stage = self._resolved(mark.stage, at)
        return Place(stage, inside, mark.line, mark.text)

    def _by_frames(self, finding: Finding) -> Place | None:
        for traceback in self._tracebacks_of(finding):
            if place := self._by_frame_list(traceback, finding.at):
                return place
        return None

    def _tracebacks_of(self, finding: Finding) -> Sequence[Traceback]:
        """The traceback that ends in the finding and the one printed after it; of a chain the last holds the way in."""
        all_of = self._reading.tracebacks
        inside = [t for t in all_of if t.at <= finding.at and finding.at - t.end < 4096]
        after = [t for t in all_of if t.at > finding.at and 0 <= t.line - finding.line <= _NEAR_LINES + 4]
        if after:  # an announced error: its traceback, or chain of tracebacks, follows
            chain = all_of[all_of.index(after[0]) :]
            return [*reversed(chain), *reversed(inside)]
        return list(reversed(inside))

    def _by_frame_list(self, traceback: Traceback, at: int) -> Place | None:
        known = catalogue().frames
        stage, inside, text = "", "", ""
        for file, function in traceback.frames:
            for frame in known:
                if frame.is_at(file, function):
                    if frame.stage and not stage:
                        stage, text = frame.stage, f"{file}, in {function}"
                    inside = frame.inside or inside
        if not stage:
            return None
        return Place(self._resolved(stage, at), inside, traceback.line, text)
