"""A run's ``events.jsonl``: one JSON object a line, written by one program and read by others while it grows."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from ..contracts import Event

_COMMON = ("v", "seq", "t", "event")


class EventWriter:
    """Appends events, one whole line at a time, so that a crash at any byte loses the last line at most.

    Goes on after the last number of a file that has events, and closes a line that an earlier writer left torn.
    Raises OSError where the file cannot be written.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        earlier = read_events(path)
        self._seq, before = (earlier[-1].seq, earlier[-1].t) if earlier else (0, 0.0)
        self._clock, self._begun = clock, clock() - before
        torn = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        if torn:
            self._file.write(b"\n")

    def write(self, event: str, **keys: Any) -> Event:
        """Append one event; numbers that are no JSON (NaN, infinity) are written as null."""
        self._seq += 1
        written = Event(self._seq, round(self._clock() - self._begun, 3), event, keys)
        line = {"v": written.v, "seq": written.seq, "t": written.t, "event": event, **_plain(keys)}
        self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        return written

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class EventReader:
    """Reads the events of a file as it grows; a file that does not exist yet has none.

    An unknown event is passed on as it is. A line without its end waits until it has one; a line that is no event is
    counted in ``damaged``; numbers that were left out are counted in ``missing``; a number seen before is dropped.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self.missing = 0
        self._offset = 0
        self._last: int | None = None

    def read(self) -> list[Event]:
        """The events whose lines were completed since the last call."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        events = (self._event(line) for line in whole.splitlines() if line.strip())
        return [event for event in events if event is not None]

    def _event(self, line: bytes) -> Event | None:
        try:
            data = json.loads(line)
            seq, event = data["seq"], data["event"]
            if not (isinstance(seq, int) and isinstance(event, str)):
                raise TypeError
            keys = {key: value for key, value in data.items() if key not in _COMMON}
            read = Event(seq, float(data["t"]), event, keys, int(data["v"]))
        except (ValueError, TypeError, KeyError):
            self.damaged += 1
            return None
        if self._last is not None:
            if seq <= self._last:
                return None
            self.missing += seq - self._last - 1
        self._last = seq
        return read


def read_events(path: Path) -> list[Event]:
    """All whole events of a file."""
    return EventReader(path).read()


def follow(path: Path, over: Callable[[], bool], poll_seconds: float = 0.1) -> Iterator[Event]:
    """Events as they come, until ``over`` says that no more will be written and the last of them is read."""
    reader = EventReader(path)
    while True:
        last = over()  # asked before reading: what was written before the end is read
        yield from reader.read()
        if last:
            return
        time.sleep(poll_seconds)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
