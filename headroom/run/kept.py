"""A trainer that outlives the program that started it (``HEADROOM_KEEP_RUNS``), and can be picked up by another.

Its supervisor holds a file of the run's folder while it lives and reads what it is asked from another, so that whoever
knows the folder can follow, ask and cancel it. Only that supervisor keeps it alive: no pipe leads back to us.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import processes, records, supervised, supervisor
from .holding import held
from .store import Run

_POLL_SECONDS = 0.05
_LEAVING_SECONDS = 2.0  # that a supervisor may take to be gone after its last word


class Kept(supervised.Trainer):
    """A trainer of a run's folder, whether it runs or has ended. Raises KeyError where the run is not kept so."""

    def __init__(self, run: Run) -> None:
        about = records.read(run.kept) or {}
        super().__init__(about["mark"], about["insist_seconds"])
        self._run = run
        self._lived = held(run.supervisor)  # what it started is then surely its own, by its number
        self._over = False

    @property
    def pid(self) -> int | None:
        """The trainer's process id; ``None`` where it was not kept."""
        return (records.read(self._run.supervisor) or {}).get("trainer")

    def wait(self, seconds: float | None = None) -> bool:
        """Whether trainer, supervisor and all that they started are gone, after at most that time."""
        until = None if seconds is None else time.monotonic() + seconds
        while held(self._run.supervisor):
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(_POLL_SECONDS if until is None else max(0.0, min(_POLL_SECONDS, until - time.monotonic())))
        if not self._over:
            self._end()
        return True

    def _end(self) -> None:
        """How it ended; where the supervisor was killed, what it left is ended too."""
        self._over = True
        said = records.read(self._run.supervisor) or {}
        self.code = said.get("code")
        self.cancelled = self.cancelled or bool(said.get("cancelled")) or self._asked_to_end()
        if "code" in said:
            until = time.monotonic() + _LEAVING_SECONDS
            while self._lived and processes.alive(said["pid"]) and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)
            return
        if self._lived and said.get("trainer"):
            self._end_tree(said["trainer"])
        for pid in processes.tree(-1, self.mark):  # numbers may have been given away since; the mark was not
            self._end_tree(pid)

    def _asked_to_end(self) -> bool:
        with contextlib.suppress(OSError):
            return supervisor.CANCEL in self._run.requests.read_text(encoding="utf-8").split()
        return False

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError), open(self._run.requests, "ab", buffering=0) as file:
            file.write(line.encode() + b"\n")

    def _supervisor(self) -> int | None:
        said = records.read(self._run.supervisor) or {}
        return said.get("pid") if held(self._run.supervisor) else None


def start(
    trainer: Sequence[str],
    run: Run,
    about: Mapping[str, Any],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    gpu: str | None = None,
    locks: Path | None = None,
    ask_seconds: float = supervised.ASK_SECONDS,
    term_seconds: float = supervised.TERM_SECONDS,
) -> Kept:
    """Start a trainer as ``supervised.start`` does, but to go on without us; ``about`` is kept for who picks it up.

    Raises GpuBusy when another run holds the GPU, OSError where the trainer cannot be started.
    """
    mark = uuid.uuid4().hex
    insist = ask_seconds + term_seconds + supervised.INSIST_SECONDS
    records.write(run.kept, {**about, "mark": mark, "insist_seconds": insist})
    options: dict[str, Any] = {"keep": run.supervisor, "requests": run.requests, "cwd": cwd, "gpu": gpu, "locks": locks}
    options |= {"ask_seconds": ask_seconds, "term_seconds": term_seconds}
    with open(run.log, "ab") as own_errors:
        started = processes.start(
            supervised.command(run.log, mark, trainer, options),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=own_errors,
            own_console=True,
            outlives_us=True,
        )
    answer: dict[str, Any] = {}
    said = threading.Event()
    threading.Thread(target=_collect, args=(started, answer, said), daemon=True).start()
    said.wait(supervised.START_SECONDS)
    if answer.get("status") == "started":
        return Kept(run)
    started.kill()
    started.wait()
    raise supervised.refusal(answer)


def _collect(program: subprocess.Popen[bytes], answer: dict[str, Any], said: threading.Event) -> None:
    """Its first line; then wait for it, so that no entry of it stays in the system's table while we live."""
    assert program.stdout is not None
    with program.stdout as pipe, contextlib.suppress(ValueError):
        answer.update(json.loads(pipe.readline()))
    said.set()
    program.wait()
