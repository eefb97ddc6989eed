"""A trainer under its supervisor, seen from the program that wants it run."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import processes
from .gpu_lock import GpuBusy, Holder
from .supervisor import CANCEL, REQUESTS

_ROOT = Path(__file__).resolve().parents[2]
ASK_SECONDS, TERM_SECONDS = 1.5, 1.0
INSIST_SECONDS = 2.0  # that a supervisor may take for more than to interrupt and terminate
START_SECONDS = 30.0
_GONE_SECONDS = 5.0
_POLL_SECONDS = 0.02
# Started by code, not by `-m`: the Python that comes with ComfyUI on Windows ignores the working folder.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from headroom.run.supervisor import main; sys.exit(main(sys.argv[1:]))"
)
_log = logging.getLogger(__name__)


class Trainer:
    """A trainer under a supervisor, wherever that is: what can be asked of it, and how it ended."""

    def __init__(self, mark: str, insist_seconds: float) -> None:
        self.mark = mark
        self.code: int | None = None
        self.cancelled = False
        self._insist_seconds = insist_seconds

    def ask(self, request: str) -> None:
        """Hand ``save``, ``sample`` or ``stop`` to the trainer; after its end this does nothing."""
        if request not in REQUESTS:
            raise ValueError(request)
        self._write(request)

    def cancel(self, save_seconds: int = 0) -> None:
        """Begin to end the trainer and return at once; it may first take that long to stop with a save.

        A supervisor that does not see to it in time is ended itself.
        """
        if self.wait(0):
            return
        if save_seconds:
            self._write(f"stop {save_seconds}")
        else:
            self.cancelled = True
            self._write(CANCEL)
        insist = threading.Timer(save_seconds + self._insist_seconds, self._insist)
        insist.daemon = True
        insist.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether trainer, supervisor and all that they started are gone, after at most that time."""
        raise NotImplementedError

    def _write(self, line: str) -> None:
        raise NotImplementedError

    def _supervisor(self) -> int | None:
        """The process id of a supervisor that lives."""
        raise NotImplementedError

    def _insist(self) -> None:
        if not self.wait(0) and (supervisor := self._supervisor()):
            self.cancelled = True
            processes.kill(supervisor)  # then whoever waits ends the trainer

    def _end_tree(self, head: int) -> None:
        """Kill what the supervisor left; a process that has much memory to give back takes its time to be gone."""
        until = time.monotonic() + _GONE_SECONDS
        processes.kill(head, self.mark)
        while processes.tree(head, self.mark) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)


class Supervised(Trainer):
    """A trainer that was started here. It lives no longer than this program, and no longer than its supervisor."""

    def __init__(self, supervisor: subprocess.Popen[bytes], mark: str, insist_seconds: float) -> None:
        super().__init__(mark, insist_seconds)
        self.supervisor = supervisor
        self.pid: int | None = None
        self._started = threading.Event()
        self._ended = threading.Event()
        self._answer: dict[str, Any] = {}
        threading.Thread(target=self._watch, name="headroom supervisor", daemon=True).start()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether trainer, supervisor and all that they started are gone, after at most that time."""
        return self._ended.wait(seconds)

    def _supervisor(self) -> int | None:
        return self.supervisor.pid

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # it has ended
            if self.supervisor.stdin:
                self.supervisor.stdin.write(line.encode() + b"\n")
                self.supervisor.stdin.flush()

    def _watch(self) -> None:
        assert self.supervisor.stdout is not None
        for line in self.supervisor.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                _log.warning("the supervisor said %r", line[:200])
                continue
            self._answer = said
            if said.get("status") == "started":
                self.pid = said["pid"]
                self._started.set()
            elif said.get("status") == "ended":
                self.code = said["code"]
                self.cancelled = self.cancelled or said["cancelled"]
        self.supervisor.wait()
        if self.pid is not None and self._answer.get("status") != "ended":
            self._end_tree(self.pid)  # the supervisor was killed
        for pipe in (self.supervisor.stdin, self.supervisor.stdout):
            if pipe:
                with contextlib.suppress(OSError):  # what was not yet written has no reader any more
                    pipe.close()
        self._started.set()
        self._ended.set()


def command(
    log: Path, mark: str, trainer: Sequence[str], options: Mapping[str, Any], python: str = sys.executable
) -> list[str]:
    """The supervisor's command; options without a value are left out."""
    given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
    return [python, "-c", _PROGRAM, str(_ROOT), f"--log={log}", f"--mark={mark}", *given, "--", *trainer]


def start(
    trainer: Sequence[str],
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    gpu: str | None = None,
    locks: Path | None = None,
    ask_seconds: float = ASK_SECONDS,
    term_seconds: float = TERM_SECONDS,
    python: str = sys.executable,
) -> Supervised:
    """Start a trainer under a supervisor, its output into ``log``, holding the GPU of that UUID while it runs.

    When it has to end, it has that many seconds after an interrupt, and after a request to terminate, before it is
    killed. Raises GpuBusy when another run holds the GPU, OSError where the trainer cannot be started.
    """
    mark = uuid.uuid4().hex
    options: dict[str, Any] = {"parent": os.getpid(), "ask_seconds": ask_seconds, "term_seconds": term_seconds}
    options |= {"cwd": cwd, "gpu": gpu, "locks": locks}
    with open(log, "ab") as own_errors:
        supervisor = processes.start(
            command(log, mark, trainer, options, python),
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=own_errors,
            own_console=True,
        )
    run = Supervised(supervisor, mark, ask_seconds + term_seconds + INSIST_SECONDS)
    run._started.wait(START_SECONDS)
    if run.pid is not None:
        return run
    supervisor.kill()
    run.wait(_GONE_SECONDS)
    raise refusal(run._answer)


def refusal(said: Mapping[str, Any]) -> Exception:
    """Why a supervisor did not start its trainer, from what it said."""
    if said.get("status") == "busy":
        return GpuBusy(Holder(**said["holder"]) if said["holder"] else None)
    return OSError(said.get("why", "the supervisor could not be started"))
