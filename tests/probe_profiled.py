"""The probe under AI Toolkit's Python, with torch's profiler around one training step, to compare the meter with.

``python probe_profiled.py PROBE FILE OPTIONS OF THE PROBE``: FILE gets what the third step took above what was there
before it, in bytes, as the meter counted and as the profiler's memory events add up.
"""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

STEP = 3
meters: list[Any] = []


def keep(module: ModuleType) -> None:
    class Kept(module.Meter):  # type: ignore[name-defined,misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            meters.append(self)

    module.Meter = Kept  # type: ignore[attr-defined]


def watch(module: ModuleType, file: Path) -> None:
    original = module.SDTrainer.hook_train_loop
    calls = 0

    def hook_train_loop(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != STEP:
            return original(*args, **kwargs)
        profiler = sys.modules["torch"].profiler
        (meter,) = meters
        before = meter.peak_bytes = meter.live_bytes
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
            result = original(*args, **kwargs)
        live = most = 0
        for event in seen.profiler.kineto_results.events():
            if event.name() == "[memory]":
                live += event.nbytes()
                most = max(most, live)
        file.write_text(json.dumps({"meter": meter.peak_bytes - before, "profiler": most}), encoding="utf-8")
        return result

    module.SDTrainer.hook_train_loop = hook_train_loop


if __name__ == "__main__":
    probe, file = sys.argv[1], Path(sys.argv[2])
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    after_import = importlib.import_module("headroom.probe.after_import").after_import
    after_import("extensions_built_in.sd_trainer.SDTrainer", lambda module: watch(module, file))
    after_import("headroom_probe.meter", keep)
    del sys.path[0]
    sys.argv = [probe, *sys.argv[3:]]
    runpy.run_path(probe, run_name="__main__")
