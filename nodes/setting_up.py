"""The setup of AI Toolkit behind the button: one at a time, in a thread, followed by pages, ended with the server."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ..headroom.contracts import Sentence, say
from ..headroom.memory.machine import space_at
from ..headroom.run.locate import NAME, Toolkit
from ..headroom.setup import Progress, SetupError, SetupStopped
from ..headroom.setup.packages import choose_torch, needs_gib
from ..headroom.setup.sources import Origin

log = logging.getLogger(__name__)

SetUp = Callable[[Callable[[Progress], None], Callable[[], bool]], Toolkit]


@dataclass(frozen=True)
class Needs:
    """What a setup brings here and takes: from where, the torch, GiB of disk while it works, and what that disk has."""

    source: str
    commit: str | None
    torch: tuple[str, ...]
    index: str | None
    gib: float
    folder: Path
    free_gib: float | None


def needs(tools: Path, source: str | None) -> Needs:
    """What a setup in that folder would take on this machine. Raises SetupError where none can be done."""
    origin = Origin.asked(source, None)
    torch = choose_torch(tools / NAME)
    space = space_at(tools)
    return Needs(
        origin.source,
        origin.commit,
        torch.packages,
        torch.index,
        needs_gib(torch),
        tools / NAME,
        space.free_gib if space else None,
    )


@dataclass(frozen=True)
class Told:
    """How the latest setup stands. ``problem`` says why it failed; ``version`` is that of what was set up."""

    state: Literal["idle", "running", "stopping", "done", "stopped", "failed"] = "idle"
    progress: Progress | None = None
    problem: Sentence | None = None
    version: str | None = None

    @property
    def runs(self) -> bool:
        """Whether one is at work."""
        return self.state in ("running", "stopping")


class SettingUp:
    """The one setup of this server. ``set_up(tell, stop)`` does the work, ``afterwards()`` follows where it did."""

    def __init__(self, set_up: SetUp, afterwards: Callable[[], None]) -> None:
        self._set_up = set_up
        self._afterwards = afterwards
        self._changing = threading.Lock()
        self._told = Told()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        atexit.register(self.end)

    @property
    def told(self) -> Told:
        """How it stands now."""
        return self._told

    def start(self) -> bool:
        """Begin one; ``False`` where one is at work."""
        with self._changing:
            if self._told.runs:
                return False
            self._told = Told("running")
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="headroom-setup", daemon=True)
            self._thread.start()
        return True

    def stop(self) -> None:
        """Ask it to stop; what it has done so far is kept for the next one."""
        with self._changing:
            if self._told.runs:
                self._told = replace(self._told, state="stopping")
                self._stop.set()

    def end(self, seconds: float = 10.0) -> None:
        """Stop it and wait until nothing of it runs."""
        self.stop()
        if self._thread:
            self._thread.join(seconds)

    def _tell(self, progress: Progress) -> None:
        with self._changing:
            self._told = replace(self._told, progress=progress)

    def _run(self) -> None:
        try:
            toolkit = self._set_up(self._tell, self._stop.is_set)
            self._afterwards()
            ended = Told("done", version=toolkit.version)
        except SetupStopped:
            ended = replace(self._told, state="stopped")
        except SetupError as error:
            log.warning("AI Toolkit could not be set up: %s", error)
            ended = replace(self._told, state="failed", problem=error.sentence)
        except Exception as error:
            log.exception("AI Toolkit could not be set up")
            ended = replace(
                self._told, state="failed", problem=say("settings.setup_broken", why=f"{type(error).__name__}: {error}")
            )
        with self._changing:
            self._told = ended
