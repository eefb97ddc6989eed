"""What a finished run gives to the graph: its LoRA, its losses, and its last previews."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import comfy.utils
import numpy
import torch
from comfy_api.latest import InputImpl, Types
from PIL import Image, ImageSequence

from ..headroom.contracts import Event
from ..headroom.run.checkpoints import files_of
from ..headroom.run.events import read_events
from ..headroom.run.store import Run
from .errors import InputError

PICTURES = (".jpg", ".jpeg", ".png", ".webp")
VIDEOS = (".mp4", ".webm")
_LOW_NOISE = "_low_noise"


def lora_file(checkpoint: Path, part: str = "high noise") -> Path:
    """The file of a LoRA; of a pair that AI Toolkit saves for two experts, the ``high noise`` or ``low noise`` one.

    Raises InputError where the file is gone.
    """
    files = files_of(checkpoint)
    if not files:
        raise InputError("checkpoint_gone", file=checkpoint.name)
    low = [path for path in files if path.stem.endswith(_LOW_NOISE)]
    return low[0] if low and part == "low noise" else next((path for path in files if path not in low), files[0])


def lora_weights(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a LoRA by name, as core's ``LORA_MODEL`` holds them."""
    return comfy.utils.load_torch_file(str(file), safe_load=True)


def losses(run: Run) -> list[float]:
    """The loss of each step that was made, in order."""
    found = (event.keys.get("loss") for event in read_events(run.events) if event.event == "step")
    return [float(loss) for loss in found if isinstance(loss, (int, float))]


def last_previews(events: Sequence[Event]) -> list[Path]:
    """The files of the newest previews that were made, in the order of their prompts."""
    made = [event for event in events if event.event == "preview" and event.keys.get("path")]
    newest = made[-1].keys.get("step") if made else None
    paths = [Path(event.keys["path"]) for event in made if event.keys.get("step") == newest]
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def shown(paths: Sequence[Path]) -> tuple[list[torch.Tensor], list[Any]]:
    """Pictures as IMAGE (1 × height × width × 3, 0 to 1), clips as VIDEO; sound and what cannot be read is left out."""
    images: list[torch.Tensor] = []
    clips: list[Any] = []
    for path in paths:
        if path.suffix.lower() in VIDEOS:
            clips.append(InputImpl.VideoFromFile(str(path)))
        elif path.suffix.lower() in PICTURES:
            with Image.open(path) as opened:
                if getattr(opened, "n_frames", 1) > 1:
                    clips.append(_clip(opened))
                else:
                    images.append(_tensor(opened)[None])
    return images, clips


def _clip(opened: Image.Image) -> Any:
    """An animated picture as a VIDEO."""
    frames = torch.stack([_tensor(frame) for frame in ImageSequence.Iterator(opened)])
    milliseconds = int(opened.info.get("duration") or 0) or 62  # AI Toolkit's default is 16 frames a second
    return InputImpl.VideoFromComponents(Types.VideoComponents(frames, Fraction(1000, milliseconds)))


def _tensor(picture: Image.Image) -> torch.Tensor:
    return torch.from_numpy(numpy.asarray(picture.convert("RGB"), dtype=numpy.float32) / 255.0)


def trained_parts(checkpoint: Path) -> Iterator[tuple[str, Path]]:
    """The files of a LoRA with what distinguishes them: nothing, or the ending of each of a pair."""
    for file in files_of(checkpoint):
        yield file.stem.removeprefix(checkpoint.stem), file
