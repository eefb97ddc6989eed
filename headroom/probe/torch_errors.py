"""What an out-of-memory error of torch says: whether it is one, its numbers, and what was going on."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence

# torch's allocator raises OutOfMemoryError; these are the other texts in which the same thing comes.
# AI Toolkit catches, in a training step, only the type and "CUDA out of memory" (BaseSDTrainProcess.run).
_TEXTS = (
    "CUDA out of memory",
    "HIP out of memory",
    "MPS backend out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
_SIZE = r"([\d.]+) (bytes|KiB|MiB|GiB|TiB)"
_GIB = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 2.0**10}
_NUMBERS = {
    "requested_gib": re.compile(rf"Tried to allocate {_SIZE}"),
    "total_gib": re.compile(rf"total capacity of {_SIZE}"),
    "free_gib": re.compile(rf"of which {_SIZE} is free"),
    "this_process_gib": re.compile(rf"this process has {_SIZE} memory in use"),
    "other_processes_gib": re.compile(rf"Process \d+ has {_SIZE} memory in use"),
    "allowed_gib": re.compile(rf"{_SIZE} allowed"),
    "allocated_gib": re.compile(rf"Of the allocated memory {_SIZE} is allocated by PyTorch"),
    "reserved_unallocated_gib": re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated"),
}
# Narrower meaning first: (what, end of the file's path, function); the file may be empty.
_PLACES: tuple[tuple[str, str, str], ...] = (
    ("optimizer", "", r"step|step_hook|_single_tensor_\w+|_multi_tensor_\w+|_init_group"),
    ("backward", r"torch/_tensor\.py|torch/autograd/\w+\.py|accelerate/accelerator\.py", "backward"),
    ("decode", "", r"_?decode\w*|tiled_decode"),
    ("text", "", r"encode_prompt|encode_static_prompt|get_prompt_embeds|cache_text_embeddings"),
    ("encode", "", r"encode_images|_cache_one_latent|_encode|tiled_encode"),
    ("quantize", r"toolkit/util/quantize\.py|toolkit/models/v2/_mixin\.py|quanto/quantize\.py", r"_?quantize\w*"),
)
_OPTIMIZERS = re.compile(r"(torch/optim/|toolkit/optimizers/|bitsandbytes/optim/|optimizer)")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the accelerator's memory ran out. Host memory (``MemoryError``) is not meant."""
    if type(error).__name__ == "OutOfMemoryError" and isinstance(error, RuntimeError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _TEXTS)


def numbers(message: str) -> dict[str, float]:
    """The sizes a message of torch prints, in GiB; several other processes are summed."""
    found = {}
    for name, pattern in _NUMBERS.items():
        sizes = [float(number) * _GIB[unit] for number, unit in pattern.findall(message)]
        if sizes:
            found[name] = round(sum(sizes) if name == "other_processes_gib" else sizes[0], 6)
    return found


def inside(error: BaseException, otherwise: str) -> str:
    """What was going on, from the frames: optimizer, backward, decode, text, encode, quantize, else ``otherwise``."""
    frames = [(frame.filename.replace("\\", "/"), frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    return place(frames, otherwise)


def place(frames: Sequence[tuple[str, str]], otherwise: str) -> str:
    """As ``inside``, from (file, function), outermost first. With checkpointing, backward runs forward again."""
    for what, file, function in _PLACES:
        for path, name in frames:
            if not re.fullmatch(function, name) or (file and not re.search(rf"(?:{file})$", path)):
                continue
            if what != "optimizer" or _OPTIMIZERS.search(path):
                return what
    return otherwise
