"""The probe under AI Toolkit's Python, with memory running out at chosen calls of the real model classes.

``python probe_faults.py PROBE '{"decode": [1, 3]}' OPTIONS OF THE PROBE``: the 1st and 3rd decode fail. Kinds: ``train``
(a forward with gradients), ``denoise`` (one without), ``decode``, ``pipeline`` (making one: after all moves to the card).
"""

from __future__ import annotations

import json
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.00 GiB is free."
)


def fail_at(kind_of: Callable[[], str], calls: dict[str, list[int]], counts: Counter[str], cls: Any, name: str) -> None:
    original = getattr(cls, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        kind = kind_of()
        counts[kind] += 1
        if counts[kind] in calls.get(kind, ()):
            raise torch.OutOfMemoryError(MESSAGE)
        return original(self, *args, **kwargs)

    method.__wrapped__ = original  # type: ignore[attr-defined]  # diffusers looks at a class's parameters
    method.__code__ = method.__code__.replace(co_name=name)  # the frame an error would come from
    setattr(cls, name, method)


if __name__ == "__main__":
    probe, faults = sys.argv[1], json.loads(sys.argv[2])
    # As run.py does; the stand-in brings a diffusers of its own.
    sys.path.insert(0, sys.argv[sys.argv.index("--toolkit") + 1])
    import diffusers

    seen: Counter[str] = Counter()
    for model in (diffusers.UNet2DConditionModel, diffusers.ZImageTransformer2DModel):
        fail_at(lambda: "train" if torch.is_grad_enabled() else "denoise", faults, seen, model, "forward")
    fail_at(lambda: "decode", faults, seen, diffusers.AutoencoderKL, "decode")
    for pipeline in (diffusers.StableDiffusionPipeline, diffusers.ZImagePipeline):
        fail_at(lambda: "pipeline", faults, seen, pipeline, "__init__")
    sys.argv = [probe, *sys.argv[3:]]
    runpy.run_path(probe, run_name="__main__")
