"""The small program between us and a trainer: owns the trainer's tree, and ends it when we are gone.

It reads lines from its standard input: ``cancel`` ends the trainer (interrupt, terminate, kill, each with a time);
``save``, ``sample`` and ``stop`` are handed to the trainer's standard input. The end of the input means that whoever
started it is gone: the trainer is ended. It writes JSON lines to its standard output: ``started`` with the trainer's
process id, ``busy`` with who holds the GPU, ``failed`` with the reason, ``ended`` with the exit code.

The other two watchers: ``supervised`` ends the trainer when this program is killed, and the trainer's own end of the
pipe tells it the same, so that no single kill leaves a process behind.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import gpu_lock, processes

REQUESTS = ("save", "sample", "stop")
CANCEL = "cancel"
_POLL_SECONDS = 0.05


def main(arguments: Sequence[str]) -> int:
    """Supervise one trainer until it has ended; 0 when it ran, 1 when it could not be started."""
    parser = argparse.ArgumentParser(prog="supervisor")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--cwd", type=Path)
    parser.add_argument("--mark", required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--gpu")
    parser.add_argument("--locks", type=Path)
    parser.add_argument("--ask-seconds", type=float, required=True)
    parser.add_argument("--term-seconds", type=float, required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    lock = None
    if options.gpu:
        try:
            lock = gpu_lock.acquire(options.gpu, "/".join(options.log.parts[-3:-1]), options.locks)
        except gpu_lock.GpuBusy as busy:
            _tell("busy", holder=busy.holder.as_dict() if busy.holder else None)
            return 1
        except OSError as error:
            _tell("failed", why=str(error))
            return 1
    try:
        return _supervise(options)
    finally:
        if lock:
            lock.release()


def _supervise(options: argparse.Namespace) -> int:
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
    _tell("started", pid=trainer.pid)
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    cancelled = False
    while trainer.poll() is None:
        try:
            request = requests.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            request = "" if _has_parent(options.parent) else CANCEL
        if request == CANCEL:
            cancelled = True
            processes.end(trainer, options.mark, options.ask_seconds, options.term_seconds)
        elif request in REQUESTS:
            _hand_on(trainer, request)
    processes.kill(trainer.pid, options.mark)  # what the trainer left behind
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


def _has_parent(pid: int) -> bool:
    """Whether whoever started us lives: a copy of our input that another program holds would hide its end."""
    return processes.WINDOWS or os.getppid() == pid


def _hand_on(trainer: subprocess.Popen[bytes], request: str) -> None:
    with contextlib.suppress(OSError):  # it has closed its input or is ending
        if trainer.stdin:
            trainer.stdin.write(request.encode() + b"\n")
            trainer.stdin.flush()


def _tell(status: str, **values: Any) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(1, json.dumps({"status": status, **values}).encode() + b"\n")
