"""The command line of the probe: set up, then AI Toolkit's own ``run.py`` as if it had been started itself."""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from .after_import import after_import
from .channel import Channel
from .control import Control
from .counting import counting
from .downloads import Downloads
from .gauges import GIB, CudaGauge, HostGauge, MeterGauge
from .largest_bucket import MODES
from .meter import CARD, Meter
from .phases import ORDER, Phases, Reached
from .placing import place
from .stand_ins import stand_in_for_cuda
from .swallowed import MODULES, Swallowed
from .trainer import Trainer
from .watch import Watch

_PROCESS = "BaseSDTrainProcess"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser("probe", description=__doc__, allow_abbrev=False)
    options.add_argument("--toolkit", type=Path, required=True, help="AI Toolkit's folder, the one with run.py")
    options.add_argument("--job", type=Path, required=True, help="the job file")
    options.add_argument("--events", required=True, help="file to append events to, or an open file descriptor")
    options.add_argument("--until", choices=ORDER, default="train", help="the phase after which the run ends")
    options.add_argument("--vram-gib", type=float, help="the most the run may take of the card, its context included")
    options.add_argument("--context-gib", type=float, default=0.5, help="what of it a process takes before any tensor")
    options.add_argument(
        "--host-ram-gib", type=float, help="end the run, saved where it trains, when it holds more host memory"
    )
    options.add_argument("--meter", action="store_true", help="without a GPU: count tensors also where there is no cap")
    options.add_argument(
        "--largest-bucket", choices=MODES, default="stop", help="try it first: end, or go on, if it fails"
    )
    options.add_argument("--control", type=int, help="file descriptor of the pipe that brings requests")
    return options


class Probe:
    """One run: what it is asked, what it writes, and what it puts between the two."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.channel = Channel(options.events)
        self.control = Control(self.channel.note)
        self.phases = Phases(self.channel, HostGauge(), options.until)
        self.options = options
        self.counting = ExitStack()
        self.cuda: CudaGauge | None = None
        self.meter: Meter | None = None
        self.trainer = Trainer(self.channel, self.phases, self.control, options.largest_bucket)
        self.swallowed = Swallowed(self.trainer.out_of_memory)
        self.downloads = Downloads(self.channel)
        self.watch = Watch(
            self.channel, lambda: self.phases.gauge, self.downloads, options.host_ram_gib, self.control.limit
        )
        self.placed = False
        self.seen = False

    def install(self) -> None:
        """Put everything in place for the modules that AI Toolkit is going to import."""
        # A program that a shell started in the background has SIGINT ignored; we end runs by it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        after_import("torch", self.on_torch)
        after_import("toolkit.accelerator", self.on_accelerator)
        after_import("huggingface_hub.file_download", self.downloads.install)
        for name in MODULES:
            after_import(name, self.swallowed.listen)
        after_import(f"jobs.process.{_PROCESS}", self.on_trainer)
        self.watch.start()

    def on_torch(self, torch: ModuleType) -> None:
        if not stand_in_for_cuda(torch):
            self.phases.gauge = self.cuda = CudaGauge(torch)
        elif self.options.meter or self.options.vram_gib is not None:
            budget = None if self.options.vram_gib is None else int(self.options.vram_gib * GIB)
            self.meter = Meter(budget, torch.OutOfMemoryError)
            self.phases.gauge = MeterGauge(self.meter)
            self.counting.enter_context(counting(torch, self.meter))

    def on_accelerator(self, module: ModuleType) -> None:
        if self.meter is not None:
            place(module, sys.modules["torch"].device(CARD), self.on_placed)

    def on_placed(self) -> None:
        self.placed = True

    def on_trainer(self, module: ModuleType) -> None:
        if self.options.vram_gib is not None and self.cuda is not None:
            # The cap covers the allocator alone; the context lies beside it.
            self.cuda.cap(self.options.vram_gib - self.options.context_gib)
        if self.meter is not None:
            self.meter.apart = self.placed
            which = "" if self.placed else ", those of host memory among them"
            self.channel.note(f"no GPU: tensors are counted in its place{which}")
        self.trainer.install(getattr(module, _PROCESS))
        self.seen = True

    def finish(self, error: BaseException | None) -> None:
        """Say how the run ended. AI Toolkit ends with 0 also when it was stopped (``run.py``)."""
        self.watch.stop()
        for where, count in self.swallowed.counts.items():
            if count > 1:
                self.channel.note(f"memory ran out {count} times in {where}, and AI Toolkit went on")
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
    probe.install()
    os.chdir(toolkit)
    sys.path.insert(0, str(toolkit))
    sys.argv = [str(toolkit / "run.py"), str(job)]
    try:
        with probe.counting:
            runpy.run_path(sys.argv[0], run_name="__main__")
    except BaseException as error:
        why = probe.control.why
        if why is not None and not isinstance(error, MemoryError):
            error = MemoryError(why)  # it was interrupted for that, before AI Toolkit could tell
        probe.finish(error)
        if isinstance(error, Reached):
            return 0
        raise error
    probe.finish(None)
    return 0
