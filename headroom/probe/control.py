"""The pipe through which the run is asked for something. Its end means that whoever started the run is gone."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable

WORDS = ("save", "sample", "stop")
_GRACE_SECONDS = 3.0


class Control:
    """Collects requests from the pipe; a training run takes them between two steps.

    Before training there is nothing to save: ``stop`` then ends the run at once. So does the end of the pipe, in
    every phase, and after a grace of three seconds without asking AI Toolkit.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.training = False
        self.stopping = False
        self.why: str | None = None
        self._note = note
        self._asked: list[str] = []
        self._lock = threading.Lock()

    def listen(self, descriptor: int) -> None:
        """Read requests from now on. Nothing else of this process, nor its children, reads from that pipe."""
        own = os.dup(descriptor)
        if descriptor == 0:
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.close(nothing)
        threading.Thread(target=self._read, args=(own,), name="headroom-control", daemon=True).start()

    def take(self) -> list[str]:
        """What was asked since the last time, each word once; ``stop`` comes last."""
        with self._lock:
            asked, self._asked = self._asked, []
        return [word for word in WORDS if word in asked]

    @property
    def stop_asked(self) -> bool:
        """Whether the run is to stop after this step; what can be left out before that is."""
        with self._lock:
            return "stop" in self._asked

    def check(self) -> None:
        """Stop here where that was asked for and lost: a library may catch whatever comes up while it is imported."""
        if self.stop_asked and not self.training:
            raise KeyboardInterrupt("asked to stop")

    def limit(self, why: str) -> None:
        """Stop as ``stop`` does, but as a failure: something ran short."""
        self._note(why)
        self.why = why
        self.ask("stop")

    def ask(self, word: str) -> None:
        if word not in WORDS:
            self._note(f"asked for {word[:40]!r}, which is none of {', '.join(WORDS)}")
            return
        with self._lock:
            self._asked.append(word)
        if word == "stop" and not self.training:
            self.stopping = True
            _thread.interrupt_main()

    def _read(self, descriptor: int) -> None:
        with contextlib.suppress(OSError), os.fdopen(descriptor, encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                if line.strip():
                    self.ask(line.strip())
        self._note("the control pipe was closed: the run ends")
        self.stopping = True
        _thread.interrupt_main()
        time.sleep(_GRACE_SECONDS)
        end_now()


def end_now() -> None:
    """End this process, and the processes it started where it leads a group of its own."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
