"""What the probe costs a training step: paired, interleaved runs without it, with it, and with its meter on.

``python benchmarks/probe_overhead.py [--pairs 5] [--steps 200] [--architecture zimage]``, with the Python of the tests.
It is run on what HEADROOM_AI_TOOLKIT and HEADROOM_AI_TOOLKIT_PYTHON name, else on the tests' stand-in. A step is
the time from the begin of one to the begin of the next, by the wall and of the processor: the second is what a machine
with other work can still say. Of each run the median counts, of the pairs the median ratio. In a further run of each
pair the probe's hooks see every second step alone, so that both kinds of step had the same machine.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TRAINER = "extensions_built_in.sd_trainer.SDTrainer"
VARIANTS = {"without": None, "with": (), "metered": ("--meter",)}
ALTERNATING = "HEADROOM_ALTERNATING"


def timed(times: Path, program: str, arguments: list[str]) -> None:
    """In AI Toolkit's Python: run a program, and write when each of its training steps began."""
    sys.path.insert(0, str(ROOT))
    after_import = importlib.import_module("headroom.probe.after_import").after_import
    begun: list[tuple[float, float]] = []

    def watch(module: Any) -> None:
        original = module.SDTrainer.hook_train_loop

        def hook_train_loop(*args: Any, **kwargs: Any) -> Any:
            begun.append((time.perf_counter(), time.process_time()))
            return original(*args, **kwargs)

        module.SDTrainer.hook_train_loop = hook_train_loop

    def alternate(wrapping: Any) -> None:
        """Let the probe's hooks see every second step alone."""
        wrapped = wrapping._wrapped

        def either(method: Any, *more: Any) -> Any:
            seen = wrapped(method, *more)

            def call(*args: Any, **kwargs: Any) -> Any:
                if method.__name__ == "hook_train_loop":
                    begun.append((time.perf_counter(), time.process_time()))
                return (method if begun and len(begun) % 2 == 0 else seen)(*args, **kwargs)

            return call

        wrapping._wrapped = either

    if ALTERNATING in os.environ:
        after_import("headroom_probe.wrapping", alternate)
    else:
        after_import(TRAINER, watch)
    sys.path.remove(str(ROOT))
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = [program, *arguments]
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        times.write_text(json.dumps(begun), encoding="utf-8")


def seconds_per_step(
    toolkit: Any, folder: Path, architecture: str, steps: int, variant: str, alternating: bool = False
) -> list[list[float]]:
    """The steps of one run, by the wall and of the processor, its first six left out."""
    from toolkits import ENVIRONMENT, PROBE, job_data

    folder.mkdir()
    data = job_data(toolkit, folder / "out", architecture, steps=steps)
    process = data["config"]["process"][0]
    process["train"]["disable_sampling"] = True
    process["save"]["save_every"] = steps + 1
    job, times, options = folder / "job.json", folder / "times.json", VARIANTS[variant]
    job.write_text(json.dumps(data), encoding="utf-8")
    program, arguments = str(toolkit.folder / "run.py"), [str(job)]
    if options is not None:
        events = ["--events", str(folder / "events.jsonl")]
        program = str(PROBE)
        arguments = ["--toolkit", str(toolkit.folder), "--job", str(job), *events, "--largest-bucket", "off", *options]
    done = subprocess.run(
        [str(toolkit.python), __file__, "--timed", str(times), program, *arguments],
        cwd=toolkit.folder,
        env={**os.environ, **ENVIRONMENT, **({ALTERNATING: "1"} if alternating else {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    begun = json.loads(times.read_text(encoding="utf-8"))
    assert done.returncode == 0 and len(begun) == steps, done.stdout[-2000:] + done.stderr[-2000:]
    return [[later - earlier for earlier, later in itertools.pairwise(each)] for each in zip(*begun[6:], strict=True)]


def hooks_alone(folder: Path, steps: int = 5000) -> float:
    """Processor seconds that the hooks of a step take by themselves: what a busy machine cannot blur."""
    from headroom.probe.channel import Channel
    from headroom.probe.control import Control
    from headroom.probe.gauges import HostGauge
    from headroom.probe.phases import Phases
    from headroom.probe.trainer import Trainer

    class Process:
        step_num = 0
        train_config = SimpleNamespace(steps=steps)
        optimizer = SimpleNamespace(param_groups=[{"lr": 1e-4}])

        def run(self) -> None:
            batch = SimpleNamespace(file_items=[SimpleNamespace(crop_width=512, crop_height=512, path="a.png")])
            for self.step_num in range(steps):
                self.hook_train_loop([batch])
                self.end_step_hook()

        def hook_train_loop(self, batch: Any) -> dict[str, float]:
            return {"loss": 0.5}

        def end_step_hook(self) -> None:
            pass

    channel = Channel(str(folder / "hooks.jsonl"))
    begun = time.process_time()
    Process().run()
    without = time.process_time() - begun
    Trainer(channel, Phases(channel, HostGauge()), Control(channel.note), "off").install(Process)
    begun = time.process_time()
    Process().run()
    return (time.process_time() - begun - without) / steps


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--architecture", choices=("sd1", "zimage"), default="zimage")
    options.add_argument("--timed", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.timed:
        timed(Path(given.timed[0]), given.timed[1], given.timed[2:])
        return
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from toolkits import REAL_FOLDER, real, standin

    with tempfile.TemporaryDirectory() as folder:
        toolkit = (real() if REAL_FOLDER else standin()).with_models(Path(folder) / "models")
        seconds: dict[str, list[list[float]]] = {variant: [] for variant in VARIANTS}
        for pair in range(given.pairs):
            # Forward and backward in turn, so that a machine that gets slower favours none.
            for variant in list(VARIANTS)[:: 1 if pair % 2 == 0 else -1]:
                run = Path(folder) / f"{variant}{pair}"
                clocks = seconds_per_step(toolkit, run, given.architecture, given.steps, variant)
                seconds[variant].append([statistics.median(each) for each in clocks])
        alternating = [
            seconds_per_step(toolkit, Path(folder) / f"both{pair}", given.architecture, given.steps, "with", True)
            for pair in range(given.pairs)
        ]
        hooks = hooks_alone(Path(folder))
    print(f"{toolkit.name}, {given.architecture}: {given.pairs} pairs of {given.steps} steps")
    for clock, name in enumerate(("by the wall", "processor")):
        without = [pair[clock] for pair in seconds["without"]]
        for variant, pairs in seconds.items():
            each = [pair[clock] for pair in pairs]
            ratios = sorted(one / other for one, other in zip(each, without, strict=True))
            print(
                f"{name:11} {variant:8} {statistics.median(each) * 1000:8.2f} ms a step "
                f"({min(each) * 1000:.2f} to {max(each) * 1000:.2f}), "
                f"ratio {statistics.median(ratios):.4f} ({ratios[0]:.4f} to {ratios[-1]:.4f})"
            )
        # The first of those that are left is one that the hooks saw.
        turns = sorted(statistics.median(run[clock][0::2]) / statistics.median(run[clock][1::2]) for run in alternating)
        print(f"{name:11} every second step of a run with: ratio {statistics.median(turns):.4f} "
              f"({turns[0]:.4f} to {turns[-1]:.4f})")  # fmt: skip
    share = hooks / min(processor for _, processor in seconds["without"])
    print(f"the hooks alone: {hooks * 1000:.3f} ms of processor time a step, {share:.2%} of the fastest step without")


if __name__ == "__main__":
    main()
