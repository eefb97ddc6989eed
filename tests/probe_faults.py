"""The probe under AI Toolkit's Python, with memory running out at chosen calls of the real classes.

``python probe_faults.py PROBE '{"decode": [1, 3]}' OPTIONS OF THE PROBE``: the 1st and 3rd decode fail. Kinds:
``load`` (a move of the model), ``quantize`` (of a layer), ``encode`` (a picture), ``text``, ``static_text`` (one of the
prompts that do not change), ``train`` (a forward with
gradients), ``largest`` (one on the most pixels so far), ``denoise`` (a forward without), ``backward``, ``optimizer``,
``decode``, ``pipeline`` (making one: after all moves to the card), ``save``, ``save_optimizer``, ``load_optimizer``.
``hog`` fails nothing: it takes 1.5 GiB of host memory at that forward with gradients.
"""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import safetensors.torch
import torch

MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.00 GiB is free."
)
HOG_BYTES = 3 * 2**29
held: list[bytearray] = []
sizes = [0]  # of the forwards with gradients so far


def fail_at(
    kinds: Callable[..., Sequence[str]] | str, calls: dict[str, list[int]], counts: Counter[str], owner: Any, name: str
) -> None:
    original = getattr(owner, name)

    def method(*args: Any, **kwargs: Any) -> Any:
        for kind in (kinds,) if isinstance(kinds, str) else kinds(*args, **kwargs):
            counts[kind] += 1
            if counts[kind] in calls.get(kind, ()):
                if kind != "hog":
                    raise torch.OutOfMemoryError(MESSAGE)
                held.append(bytearray(b"1") * HOG_BYTES)
        return original(*args, **kwargs)

    method.__wrapped__ = original  # type: ignore[attr-defined]  # diffusers looks at a class's parameters
    method.__code__ = method.__code__.replace(co_name=name)  # the frame an error would come from
    setattr(owner, name, method)


def forward_kinds(model: Any, *args: Any, **kwargs: Any) -> Sequence[str]:
    if not torch.is_grad_enabled():
        return ("denoise",)
    latents = args[0] if args else kwargs.get("sample", kwargs.get("x"))
    pixels = latents.numel() if isinstance(latents, torch.Tensor) else sum(each.numel() for each in latents)
    sizes.append(pixels)
    return ("train", "hog", "largest") if pixels == max(sizes) else ("train", "hog")


def text_kinds(*args: Any, **kwargs: Any) -> Sequence[str]:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "encode_static_prompt":
            return ("text", "static_text")
    return ("text",)


if __name__ == "__main__":
    probe, faults = sys.argv[1], json.loads(sys.argv[2])
    # As run.py does; the stand-in brings a diffusers of its own.
    sys.path.insert(0, sys.argv[sys.argv.index("--toolkit") + 1])
    import diffusers

    seen: Counter[str] = Counter()
    for model in (diffusers.UNet2DConditionModel, diffusers.ZImageTransformer2DModel):
        fail_at(forward_kinds, faults, seen, model, "forward")
        fail_at("load", faults, seen, model, "to")
    fail_at("encode", faults, seen, diffusers.AutoencoderKL, "encode")
    fail_at("decode", faults, seen, diffusers.AutoencoderKL, "decode")
    for pipeline in (diffusers.StableDiffusionPipeline, diffusers.ZImagePipeline):
        fail_at("pipeline", faults, seen, pipeline, "__init__")
    fail_at(text_kinds, faults, seen, torch.nn.functional, "embedding")
    fail_at("backward", faults, seen, torch.autograd, "_engine_run_backward")
    fail_at("optimizer", faults, seen, importlib.import_module("torch.optim.adam"), "_single_tensor_adam")
    fail_at("save", faults, seen, safetensors.torch, "save_file")
    fail_at("save_optimizer", faults, seen, torch, "save")
    fail_at("load_optimizer", faults, seen, torch.optim.Optimizer, "load_state_dict")
    if "quantize" in faults:
        quanto = importlib.import_module("optimum.quanto.quantize")
        fail_at("quantize", faults, seen, quanto, "_quantize_submodule")
    sys.argv = [probe, *sys.argv[3:]]
    runpy.run_path(probe, run_name="__main__")
