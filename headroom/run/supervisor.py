"""The small program between us and a trainer: owns the trainer's tree, and ends it when we are gone.

It reads lines from its standard input: ``cancel`` ends the trainer (interrupt, terminate, kill, each with a time);
``save``, ``sample`` and ``stop`` are handed to the trainer's standard input, and ``stop 60`` is a cancel after so many
seconds. The end of the input means that whoever started it is gone: the trainer is ended. It writes JSON lines to its
standard output: ``started`` with the trainer's process id, ``busy`` with who holds the GPU, ``failed`` with the reason,
``ended`` with the exit code.

The other two watchers: ``supervised`` ends the trainer when this program is killed, and the trainer's own end of the
pipe tells it the same, so that no single kill leaves a process behind.

With ``--keep`` the run outlives whoever started it. Then the lines are read from a file of the run's folder, and this
program holds another there while it lives, which says how the trainer is doing, and at the end how it ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import gpu_lock, processes
from .holding import Hold, RunInUse

REQUESTS = ("save", "sample", "stop")
CANCEL = "cancel"
_POLL_SECONDS = 0.05


def main(arguments: Sequence[str]) -> int:
    """Supervise one trainer until it has ended; 0 when it ran, 1 when it could not be started."""
    parser = argparse.ArgumentParser(prog="supervisor")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--cwd", type=Path)
    parser.add_argument("--mark", required=True)
    parser.add_argument("--parent", type=int, help="ends with it; its lines are on the standard input")
    parser.add_argument("--keep", type=Path, help="ends with nobody: the file to hold, and with --requests its lines")
    parser.add_argument("--requests", type=Path)
    parser.add_argument("--gpu")
    parser.add_argument("--locks", type=Path)
    parser.add_argument("--ask-seconds", type=float, required=True)
    parser.add_argument("--term-seconds", type=float, required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    with contextlib.ExitStack() as held:
        hold = None
        try:
            if options.keep:
                hold = Hold(options.keep)
                held.callback(hold.release)
            if options.gpu:
                name = "/".join(options.log.parts[-3:-1])
                held.callback(gpu_lock.acquire(options.gpu, name, options.locks).release)
        except gpu_lock.GpuBusy as busy:
            _tell("busy", holder=busy.holder.as_dict() if busy.holder else None)
            return 1
        except (OSError, RunInUse) as error:
            _tell("failed", why=str(error))
            return 1
        return _supervise(options, hold)


def _supervise(options: argparse.Namespace, hold: Hold | None) -> int:
    bound = processes.bind_to_this_process()  # held until this program ends
    requests: queue.Queue[str] = queue.Queue()
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: requests.put(CANCEL))
    try:
        with open(options.log, "ab") as log:
            trainer = processes.start(
                options.command,
                cwd=options.cwd,
                env={**os.environ, processes.MARK: options.mark},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
    except OSError as error:
        _tell("failed", why=str(error))
        return 1
    _note(hold, pid=os.getpid(), trainer=trainer.pid)
    _tell("started", pid=trainer.pid)
    source = (_follow, options.requests) if options.keep else (_listen,)
    threading.Thread(target=source[0], args=(*source[1:], requests), daemon=True).start()
    cancelled, patience = False, float("inf")
    while trainer.poll() is None:
        try:
            request, _, seconds = requests.get(timeout=_POLL_SECONDS).partition(" ")
        except queue.Empty:
            request, seconds = "", ""
        if time.monotonic() > patience or not (request or _has_parent(options.parent)):
            request = CANCEL
        if request == CANCEL:
            cancelled = True
            processes.end(trainer, options.mark, options.ask_seconds, options.term_seconds)
        elif request in REQUESTS:
            _hand_on(trainer, request)
            if seconds.isdecimal():
                patience = time.monotonic() + int(seconds)
    processes.kill(trainer.pid, options.mark)  # what the trainer left behind
    _note(hold, pid=os.getpid(), trainer=trainer.pid, code=trainer.returncode, cancelled=cancelled)
    _tell("ended", code=trainer.returncode, cancelled=cancelled)
    del bound
    return 0


def _listen(requests: queue.Queue[str]) -> None:
    """Lines of the standard input; its end is a cancel. Not by ``sys.stdin``, whose lock would outlive the thread."""
    text = b""
    while True:
        try:
            more = os.read(0, 4096)
        except OSError:
            more = b""
        if not more:
            requests.put(CANCEL)
            return
        *lines, text = (text + more).split(b"\n")
        for line in lines:
            requests.put(line.strip().decode("utf-8", "replace"))


def _follow(file: Path, requests: queue.Queue[str]) -> None:
    """Lines of a file that others append to."""
    text, offset = b"", 0
    while True:
        with contextlib.suppress(OSError), open(file, "rb") as opened:  # nobody has asked for anything yet
            opened.seek(offset)
            more = opened.read()
            offset += len(more)
            *lines, text = (text + more).split(b"\n")
            for line in lines:
                requests.put(line.strip().decode("utf-8", "replace"))
        time.sleep(_POLL_SECONDS)


def _has_parent(pid: int | None) -> bool:
    """Whether whoever started us lives: a copy of our input that another program holds would hide its end."""
    return pid is None or processes.WINDOWS or os.getppid() == pid


def _note(hold: Hold | None, **values: Any) -> None:
    if hold:
        with contextlib.suppress(OSError):  # a full disk; then how it ended is not known
            hold.note(values)


def _hand_on(trainer: subprocess.Popen[bytes], request: str) -> None:
    with contextlib.suppress(OSError):  # it has closed its input or is ending
        if trainer.stdin:
            trainer.stdin.write(request.encode() + b"\n")
            trainer.stdin.flush()


def _tell(status: str, **values: Any) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(1, json.dumps({"status": status, **values}).encode() + b"\n")
