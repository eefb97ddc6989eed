"""What the page is told while a run goes on: one small message a node, kept for a page that is opened meanwhile."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server import PromptServer

if TYPE_CHECKING:
    from ..headroom.contracts import Event
    from ..headroom.run.store import Run

EVENT = "headroom.run"
_LEAST_SECONDS = 0.2  # between two messages
_PACE_STEPS = 20
_MOST_KEPT = 50
_CARD = ("device_gib", "reserved_gib", "allocated_gib")  # the first that is known
_kept: dict[tuple[str | None, str], dict[str, Any]] = {}


def kept() -> list[dict[str, Any]]:
    """The newest message of each node, oldest first."""
    return list(_kept.values())


class Status:
    """The message of one node: what is going on, and for a training step and total, pace, time left and previews, and
    what the run holds of the card.

    ``graph`` is the workflow's id, ``node`` the node's place in it (``3:2`` is node 2 inside subgraph 3).
    """

    def __init__(
        self, node_type: str, node: str, graph: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._message: dict[str, Any] = {"type": node_type, "node": node, "graph": graph}
        self._clock, self._sent = clock, 0.0
        self._open: list[str] = []
        self._steps: deque[tuple[int, float]] = deque(maxlen=_PACE_STEPS)
        self._run: Run | None = None

    @property
    def step(self) -> tuple[int, int] | None:
        """The last step and how many there are, once a step was made."""
        step, total = self._message.get("step"), self._message.get("total")
        return (step, total) if step is not None and total else None

    def say(self, state: str, **more: Any) -> None:
        """Tell at once that something else goes on (``freeing``, ``starting``, ``running``, ``over`` …)."""
        self._message |= {"state": state, **more}
        self._send()

    def begin(self, run: Run, vram_gib: float | None) -> None:
        """From now on it is this run's."""
        self._run = run
        self.say("running", run=f"{run.folder.parent.name}/{run.folder.name}", budget_gib=vram_gib)

    def hear(self, events: Iterable[Event]) -> None:
        """Take in what the run told, and pass it on when it is time."""
        for event in events:
            self._take(event)
        if self._clock() - self._sent >= _LEAST_SECONDS:
            self._send()

    def _take(self, event: Event) -> None:
        keys, message = event.keys, self._message
        message.pop("download", None)
        if event.event == "phase":
            phase = str(keys.get("phase"))
            if keys.get("state") == "begin":
                self._open.append(phase)
            elif phase in self._open:
                self._open.remove(phase)
            message["phase"] = self._open[-1] if self._open else phase
        elif event.event == "step" and isinstance(keys.get("step"), int):
            self._steps.append((keys["step"], event.t))
            (first, begun), (last, now) = self._steps[0], self._steps[-1]
            pace = (now - begun) / (last - first) if last > first else None
            total = keys.get("total")
            left = pace * (total - last) if pace is not None and isinstance(total, int) else None
            message |= {"step": last, "total": total, "seconds_per_step": pace, "seconds_left": left}
        elif event.event == "preview" and keys.get("path") and self._run:
            if message.get("samples_of") != keys.get("step"):
                message |= {"samples_of": keys.get("step"), "samples": []}
            message["samples"] = [*message["samples"], below(self._run, Path(keys["path"]))]
        elif event.event == "memory":
            message["vram_gib"] = next((keys[name] for name in _CARD if isinstance(keys.get(name), (int, float))), None)
        elif event.event == "download":
            message["download"] = {name: keys.get(name) for name in ("name", "bytes", "total")}

    def _send(self) -> None:
        self._sent = self._clock()
        key = (self._message["graph"], self._message["node"])
        _kept.pop(key, None)
        _kept[key] = dict(self._message)
        while len(_kept) > _MOST_KEPT:
            del _kept[next(iter(_kept))]
        PromptServer.instance.send_sync(EVENT, dict(self._message))


def below(run: Run, path: Path) -> str:
    """A sample's place below the run's output folder, as the page asks for it."""
    try:
        return path.relative_to(run.output).as_posix()
    except ValueError:
        return path.name
