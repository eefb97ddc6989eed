"""Checkpoints as AI Toolkit leaves them: which one the log says was saved last, and whether it opens, without torch."""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LONGEST_HEADER = 100_000_000  # safetensors' own limit
_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16,
    "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8, "F4": 4, "F6_E2M3": 6,
    "F6_E3M2": 6,
}  # fmt: skip
_SAVING = "Saving at step"
_SAVED = re.compile(r"Saved checkpoint to (.+?)\s*$")
_OF_A_STEP = re.compile(r"_\d{9}$")  # jobs/process/BaseSDTrainProcess.py save(): str(step).zfill(9)


def final_save(log: Path) -> Path | None:
    """The file of the final save: ``Saved checkpoint to`` that no ``Saving at step`` announced, and of no step.

    A save that was asked for is not announced either, but is named for its step.
    Source: jobs/process/BaseSDTrainProcess.py ``run`` and ``save``. Raises OSError.
    """
    final, announced = None, False
    for line in _lines(log):
        if _SAVING in line:
            announced = True
        elif saved := _SAVED.search(line):
            path = Path(saved[1])
            if not announced and not _OF_A_STEP.search(path.stem):
                final = path
            announced = False
    return final


def files_of(checkpoint: Path) -> list[Path]:
    """The files of a checkpoint: itself, those in its folder, or the pair that AI Toolkit saves for two experts.

    For a pair it prints the name without ``_high_noise`` and ``_low_noise``
    (extensions_built_in/diffusion_models/wan22).
    """
    if checkpoint.is_file():
        return [checkpoint]
    if checkpoint.is_dir():
        return sorted(path for path in checkpoint.rglob("*") if path.suffix in (".safetensors", ".bin", ".pt"))
    names = (f"{checkpoint.stem}_{part}_noise{checkpoint.suffix}" for part in ("high", "low"))
    return [path for path in (checkpoint.with_name(name) for name in names) if path.is_file()]


def opens(checkpoint: Path) -> bool:
    """Whether a checkpoint is there and every file of it is whole."""
    files = files_of(checkpoint)
    return bool(files) and all(_whole(file) for file in files)


def _whole(file: Path) -> bool:
    try:
        return whole_safetensors(file) if file.suffix == ".safetensors" else zipfile.is_zipfile(file)
    except OSError:
        return False


def set_aside_torn(folder: Path) -> list[Path]:
    """Rename the checkpoints below a training folder that a kill left torn; the new names.

    AI Toolkit goes on from the newest file whose name begins with the job's, whatever its ending, and would fail on
    such a one (jobs/process/BaseSDTrainProcess.py get_latest_save_path). Raises OSError.
    """
    torn = [path for path in sorted(folder.rglob("*.safetensors")) if not path.is_symlink() and not _whole(path)]
    return [path.rename(path.with_name(f"~{path.name}.torn")) for path in torn]


def whole_safetensors(file: Path) -> bool:
    """Whether the header can be read, and its tensors fill the file to the last byte. Raises OSError.

    The format: eight bytes of length, that much JSON, then the tensors without a gap (the safetensors README).
    """
    size = file.stat().st_size
    with open(file, "rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if size < 8 or not 2 <= length <= min(_LONGEST_HEADER, size - 8):
            return False
        try:
            header = json.loads(opened.read(length))
            tensors = [entry for name, entry in header.items() if name != "__metadata__"]
            spans = sorted(_span(entry) for entry in tensors)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return False
    end = 0
    for begin, stop in spans:
        if begin != end:
            return False
        end = stop
    return bool(spans) and 8 + length + end == size


def _span(entry: dict[str, Any]) -> tuple[int, int]:
    """Where a tensor's bytes lie. Raises ValueError where they do not fit its shape and type."""
    begin, end = entry["data_offsets"]
    shape = entry["shape"]
    whole = isinstance(shape, list) and all(isinstance(each, int) and each >= 0 for each in (begin, end, *shape))
    if not whole or begin > end:
        raise ValueError(entry)
    bits = _BITS.get(entry["dtype"])
    if bits is not None and math.prod(shape) * bits != 8 * (end - begin):
        raise ValueError(entry)
    return begin, end


def _lines(log: Path) -> Iterator[str]:
    """The lines of a log; a repaint of a bar is one."""
    with open(log, encoding="utf-8", errors="replace", newline=None) as file:  # \r ends a line too
        yield from file
