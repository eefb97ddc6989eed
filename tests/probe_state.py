"""The probe under AI Toolkit's Python, which also writes down what is saved and what is there when training begins.

A line of JSON in the file that ``STATE_FILE`` names at each save and each begin: the step, and digests of the network's
weights and of the optimizer's state.
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PROBE = Path(__file__).resolve().parent.parent / "headroom" / "probe"


def digest(value: Any) -> str:
    """Of tensors by their bytes, in order; of numbers by their text."""
    import torch

    if isinstance(value, torch.Tensor):
        whole = value.detach().cpu().contiguous()
        return hashlib.sha256(f"{whole.dtype}{tuple(whole.shape)}".encode() + whole.numpy().tobytes()).hexdigest()
    if isinstance(value, dict):
        value = [(str(key), digest(value[key])) for key in sorted(value, key=str)]
    elif isinstance(value, (list, tuple)):
        value = [digest(each) for each in value]
    return hashlib.sha256(repr(value).encode()).hexdigest()


def write(process: Any, when: str) -> None:
    weights = {name: tensor for name, tensor in process.network.state_dict().items() if "lora" in name}
    state = process.optimizer.state_dict()["state"]
    line = {"when": when, "step": process.step_num, "weights": digest(weights), "optimizer": digest(state)}
    line |= {"tensors": len(weights), "states": len(state)}
    with open(os.environ["STATE_FILE"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def watch(module: ModuleType) -> None:
    """Wrap the two methods of the class that all training processes share."""
    cls = module.BaseSDTrainProcess
    save, begin = cls.save, cls.hook_before_train_loop

    def saved(self: Any, step: int | None = None) -> Any:
        result = save(self, step)
        write(self, "saved")
        return result

    def begun(self: Any) -> Any:
        result = begin(self)
        write(self, "begun")
        return result

    cls.save, cls.hook_before_train_loop = saved, begun


if __name__ == "__main__":
    sys.path.insert(0, str(PROBE))
    from after_import import after_import

    sys.path.remove(str(PROBE))
    after_import("jobs.process.BaseSDTrainProcess", watch)
    sys.argv[0] = str(PROBE / "__main__.py")
    runpy.run_path(sys.argv[0], run_name="__main__")
