"""The probe's own channel: one JSON object a line, each line written at once."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from pathlib import Path
from typing import Any


class Channel:
    """Writes events, as ``{"v": 1, "seq": n, "t": seconds since the start, "event": kind, ...}``.

    A line that cannot be written (a full disk) never ends the run: the count is told once there is room again.
    """

    def __init__(self, target: str) -> None:
        """``target`` is a file, which is appended to and numbered on, or the number of an open file descriptor."""
        self._lock = threading.RLock()
        self._seq, before, self._torn = (0, 0.0, False) if target.isdigit() else _last(Path(target))
        self._start = time.monotonic() - before
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._descriptor = int(target) if target.isdigit() else os.open(Path(target), flags, 0o644)
        self._lost = 0

    def write(self, event: str, **keys: Any) -> None:
        with self._lock:
            if self._lost and self._line("note", {"text": f"{self._lost} events could not be written"}):
                self._lost = 0
            if not self._line(event, keys):
                self._lost += 1

    def note(self, text: str) -> None:
        self.write("note", text=text)

    def _line(self, event: str, keys: dict[str, Any]) -> bool:
        head = {"v": 1, "seq": self._seq + 1, "t": round(time.monotonic() - self._start, 3), "event": event}
        line = json.dumps({**head, **_plain(keys)}, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        try:
            written = os.write(self._descriptor, b"\n" * self._torn + line)
        except OSError:
            return False
        # What was torn ends with the next line break; a reader leaves it out.
        self._torn = written < len(line) + self._torn
        self._seq += not self._torn
        return not self._torn


def _last(path: Path) -> tuple[int, float, bool]:
    """Number and time of the last event that a file holds, and whether its last line lacks its end."""
    text = path.read_bytes() if path.exists() else b""
    for line in reversed(text.splitlines()):
        try:
            event = json.loads(line)
            return int(event["seq"]), float(event["t"]), not text.endswith(b"\n")
        except (ValueError, TypeError, KeyError):
            continue
    return 0, 0.0, bool(text) and not text.endswith(b"\n")


def _plain(value: Any) -> Any:
    """The value as JSON holds it: no NaN or infinity, no type of torch or numpy."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None
