"""What a dataset's folder holds for AI Toolkit: pictures, clips, sounds, their captions, and what it could not use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import configs

MOST_READ = 5000  # pictures whose headers are read; what lies behind is taken as it is


@dataclass(frozen=True)
class Media:
    """Files of a folder, by their paths in it. Clips and sounds are known by their endings alone."""

    images: tuple[str, ...] = ()
    clips: tuple[str, ...] = ()
    sounds: tuple[str, ...] = ()
    uncaptioned: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    garbled_captions: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Everything that could be trained."""
        return self.images + self.clips + self.sounds


def kind_of(name: str) -> str | None:
    """``image``, ``clip`` or ``sound`` by a file name's ending; ``None`` for what AI Toolkit does not train."""
    ending = Path(name).suffix.lower()
    return next((kind for kind, endings in _endings().items() if ending in endings), None)


def holds_media(folder: Path) -> bool:
    """Whether a folder itself, without those inside it, holds anything to train."""
    try:
        with os.scandir(folder) as entries:
            return any(kind_of(entry.name) and not entry.name.startswith(".") for entry in entries)
    except OSError:
        return False


def survey(folder: Path, caption_extension: str = "txt") -> Media:
    """Looks at everything below a folder as AI Toolkit's loader does (toolkit/data_loader.py AiToolkitDataset).

    Raises OSError where the folder cannot be read.
    """
    found: dict[str, list[str]] = {kind: [] for kind in _endings()}
    uncaptioned, unreadable, garbled = [], [], []
    for path in _files(folder):
        kind = kind_of(path.name)
        if kind is None:
            continue
        name = path.relative_to(folder).as_posix()
        found[kind].append(name)
        try:
            caption = path.with_suffix("." + caption_extension.lstrip(".")).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            garbled.append(name)
        except OSError:
            uncaptioned.append(name)
        else:
            if not caption.strip():
                uncaptioned.append(name)
        if kind == "image" and len(found[kind]) <= MOST_READ and not _readable(path):
            unreadable.append(name)
    images, clips, sounds = (tuple(found[kind]) for kind in ("image", "clip", "sound"))
    return Media(images, clips, sounds, tuple(uncaptioned), tuple(unreadable), tuple(garbled))


def _endings() -> dict[str, list[str]]:
    return configs.load("starting/choices")["media"]


def _files(folder: Path) -> Iterator[Path]:
    passed_over = configs.load("starting/choices")["not_trained"]

    def fail(error: OSError) -> None:
        raise error

    for root, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each != passed_over)
        yield from (Path(root, name) for name in sorted(names) if not name.startswith("."))


def _readable(path: Path) -> bool:
    """Whether a picture's header can be read; without Pillow, whether it holds anything."""
    try:
        from PIL import Image
    except ImportError:
        return path.stat().st_size > 0
    try:
        with Image.open(path) as picture:
            return min(picture.size) > 0
    except Exception:  # whatever Pillow raises for a damaged file
        return False
