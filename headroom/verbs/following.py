"""A run as a person follows it: a line for what happens, and one that is repainted for how far it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from ..contracts import Event, Sentence, say
from ..report.wording import known_key, words

_RECENT_STEPS = 30  # that the speed is taken from
_EVERY_PERCENT = 5  # where nothing can be repainted
_WIDTH = 110
_GIB = 2**30


class Following:
    """Shows events on a stream as they come; on a terminal the last line is repainted."""

    def __init__(self, stream: TextIO, lang: str) -> None:
        self._stream, self._lang = stream, lang
        self._live = stream.isatty()
        self._painted = False
        self._seconds: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._begun: set[str] = set()
        self._shown_percent = -1
        self._memory: Mapping[str, Any] = {}

    def show(self, event: Event) -> None:
        """Show one event; one that says nothing to a person changes nothing."""
        if event.event == "memory":
            self._memory = event.keys
        for sentence in self._happened(event):
            self.say(sentence)
        if event.event == "step":
            self._step(event)
        elif event.event == "download" and self._live:
            self._paint(self._download(event.keys))

    def say(self, sentence: Sentence) -> None:
        """A line of its own."""
        self.end()
        print(words(sentence, self._lang), file=self._stream, flush=True)

    def end(self) -> None:
        """Leave the repainted line."""
        if self._painted:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
            self._painted = False

    def _happened(self, event: Event) -> Iterator[Sentence]:
        keys = event.keys
        step = keys.get("step")
        if event.event == "phase":
            yield from self._phase(keys)
        elif event.event == "skipped":
            size, files = _size(keys.get("bucket")), [str(file) for file in _list(keys.get("files"))]
            yield say("train.skipped", step=step, bucket=size, files=files or say("doctor.unknown"))
        elif event.event == "out_of_memory":
            yield say("train.out_of_memory", where=say(_stage(keys)), message=_first_line(keys.get("message")))
        elif event.event == "preview" and keys.get("outcome") in ("made", "smaller", "skipped"):
            size = _size([keys.get(side) for side in ("width", "height", "frames")])
            reason = _first_line(keys.get("reason"))
            yield say(f"train.preview.{keys['outcome']}", step=step, path=keys.get("path"), size=size, reason=reason)
        elif event.event == "checkpoint":
            yield say("train.checkpoint", step=step, path=keys.get("path"))
        elif event.event == "download" and (total := _number(keys.get("total"))) and keys.get("bytes") == total:
            yield say("train.downloaded", name=keys.get("name"), gib=total / _GIB)
        elif event.event == "note":
            yield say("train.note", text=keys.get("text"))

    def _phase(self, keys: Mapping[str, Any]) -> Iterator[Sentence]:
        """The beginning of each kind of phase, once: a preview interrupts the training again and again."""
        phase = str(keys.get("phase"))
        if keys.get("state") == "begin" and phase not in self._begun and known_key(f"train.phase.{phase}"):
            self._begun.add(phase)
            yield say(f"train.phase.{phase}")

    def _step(self, event: Event) -> None:
        keys = event.keys
        step, total, seconds = keys.get("step"), keys.get("total"), keys.get("seconds")
        if not isinstance(step, int) or not isinstance(total, int) or total <= 0:
            return
        if isinstance(seconds, (int, float)):
            self._seconds.append(seconds)
        percent = 100 * step // total
        if self._live:
            self._paint(self._progress(step, total, keys.get("loss")))
        elif step == total or percent // _EVERY_PERCENT > self._shown_percent // _EVERY_PERCENT:
            self._shown_percent = percent
            self.say(self._progress(step, total, keys.get("loss")))

    def _progress(self, step: int, total: int, loss: Any) -> Sentence:
        unknown = say("doctor.unknown")
        a_step = sum(self._seconds) / len(self._seconds) if self._seconds else None
        card = next((self._memory[name] for name in ("device_gib", "reserved_gib") if self._memory.get(name)), None)
        return say(
            "train.step" if card is None else "train.step.memory",
            step=step,
            total=total,
            loss=f"{loss:.4f}" if isinstance(loss, (int, float)) else unknown,
            speed=unknown if a_step is None else f"{a_step:.2f}",
            left=unknown if a_step is None else _duration(a_step * (total - step)),
            gib=card,
        )

    def _download(self, keys: Mapping[str, Any]) -> Sentence:
        done, total = _number(keys.get("bytes")), _number(keys.get("total"))
        whole = total / _GIB if total else say("doctor.unknown")
        return say("train.downloading", name=keys.get("name"), done=done / _GIB, total=whole)

    def _paint(self, sentence: Sentence) -> None:
        print("\r\x1b[K" + words(sentence, self._lang)[:_WIDTH], end="", file=self._stream, flush=True)
        self._painted = True


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def _size(sides: Any) -> str | Sentence:
    """``1024 x 768``, with frames where there are more than one."""
    numbers = [side for side in _list(sides) if isinstance(side, int)]
    if len(numbers) > 2 and numbers[2] == 1:
        numbers = numbers[:2]
    return " x ".join(map(str, numbers)) or say("doctor.unknown")


def _stage(keys: Mapping[str, Any]) -> str:
    key = f"stage.{keys.get('phase')}"
    return key if known_key(key) else "stage.unknown"


def _first_line(text: Any) -> str:
    lines = str(text or "").strip().splitlines()
    return lines[0] if lines else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float:
    return value if isinstance(value, (int, float)) else 0
