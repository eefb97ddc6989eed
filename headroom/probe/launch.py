"""The command line of the probe: set up, then AI Toolkit's own ``run.py`` as if it had been started itself."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from .after_import import after_import
from .channel import Channel
from .control import Control
from .gauges import CudaGauge, HostGauge
from .phases import ORDER, Phases
from .stand_ins import stand_in_for_cuda
from .trainer import Trainer

_PROCESS = "BaseSDTrainProcess"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser("probe", description=__doc__, allow_abbrev=False)
    options.add_argument("--toolkit", type=Path, required=True, help="AI Toolkit's folder, the one with run.py")
    options.add_argument("--job", type=Path, required=True, help="the job file")
    options.add_argument("--events", required=True, help="file to append events to, or an open file descriptor")
    options.add_argument("--until", choices=ORDER, default="train", help="the phase after which the run ends")
    options.add_argument("--control", type=int, help="file descriptor of the pipe that brings requests")
    return options


class Probe:
    """One run: what it is asked, what it writes, and what it puts between the two."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.channel = Channel(options.events)
        self.control = Control(self.channel.note)
        self.phases = Phases(self.channel, HostGauge(), options.until)
        self.trainer = Trainer(self.channel, self.phases, self.control)
        self.seen = False

    def on_torch(self, torch: ModuleType) -> None:
        if not stand_in_for_cuda(torch):
            self.phases.gauge = CudaGauge(torch)

    def on_trainer(self, module: ModuleType) -> None:
        self.trainer.install(getattr(module, _PROCESS))
        self.seen = True

    def finish(self, error: BaseException | None) -> None:
        """Say how the run ended. AI Toolkit ends with 0 also when it was stopped (``run.py``)."""
        stopped = isinstance(error, KeyboardInterrupt) or (isinstance(error, SystemExit) and not error.code)
        how = "finished" if error is None or self.phases.reached else "stopped" if stopped else "failed"
        keys: dict[str, Any] = {"how": how, "steps": self.trainer.steps}
        if how == "failed":
            keys["message"] = f"{type(error).__name__}: {error}"
        if not self.seen:
            self.channel.note(f"{_PROCESS} was never imported: this run's phases and steps are not seen")
        self.channel.write("finished", **keys)


def main(arguments: Sequence[str]) -> int:
    """Run the job; the exit code is AI Toolkit's own."""
    options = parser().parse_args(arguments)
    toolkit, job = options.toolkit.resolve(), options.job.resolve()
    if not (toolkit / "run.py").is_file():
        parser().error(f"--toolkit: no run.py in {toolkit}")
    probe = Probe(options)
    if options.control is not None:
        probe.control.listen(options.control)
    after_import("torch", probe.on_torch)
    after_import(f"jobs.process.{_PROCESS}", probe.on_trainer)
    os.chdir(toolkit)
    sys.path.insert(0, str(toolkit))
    sys.argv = [str(toolkit / "run.py"), str(job)]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except BaseException as error:
        probe.finish(error)
        raise
    probe.finish(None)
    return 0
