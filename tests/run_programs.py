"""Small real programs for the tests of runs: a stubborn trainer with a process of its own, and a program that runs one."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from headroom.run import processes

ROOT = Path(__file__).resolve().parent.parent

# Deaf to everything but a kill, and so is what it starts: the hardest to get rid of.
STUBBORN = """
import json, os, signal, subprocess, sys, time
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
if sys.argv[1] == "head":
    other = subprocess.Popen([sys.executable, sys.argv[0], "other"], start_new_session="astray" in sys.argv)
    with open(sys.argv[2] + ".new", "w") as file:
        json.dump([os.getpid(), other.pid], file)
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    print("the trainer runs", flush=True)
time.sleep(120)
"""

# Runs a trainer and waits, as ComfyUI does.
RUNNER = """
import json, os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from headroom.run import supervised
options = json.loads(sys.argv[2])
run = supervised.start(options["command"], Path(options["log"]), gpu=options.get("gpu"), locks=options.get("locks") and Path(options["locks"]), ask_seconds=0.2, term_seconds=0.2)
print(json.dumps({"supervisor": run.supervisor.pid, "trainer": run.pid, "mark": run.mark}), flush=True)
if options.get("fork") and os.fork() == 0:
    time.sleep(20)  # with a copy of the pipe
    os._exit(0)
time.sleep(120)
"""


def stubborn(folder: Path, *more: str) -> tuple[list[str], Path]:
    """The command of a stubborn trainer, and the file that will hold its process ids."""
    program = folder / "stubborn.py"
    program.write_text(STUBBORN, encoding="utf-8")
    pids = folder / "pids.json"
    return [sys.executable, str(program), "head", str(pids), *more], pids


def pids_in(file: Path, seconds: float = 20.0) -> list[int]:
    """The process ids in the file, once they are there."""
    until(file.exists, seconds)
    return json.loads(file.read_text(encoding="utf-8"))


def until(holds, seconds: float) -> None:  # type: ignore[no-untyped-def]
    """Wait until it holds; fails when it does not in that time, which is generous."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def gone(*pids: int, mark: str = "", seconds: float = 20.0) -> None:
    """Fails unless all these processes end, and with them whatever carries the mark."""
    until(lambda: not any(processes.alive(pid) for pid in pids), seconds)
    if mark:
        until(lambda: not processes.tree(-1, mark), seconds)
