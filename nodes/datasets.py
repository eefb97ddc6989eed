"""Datasets that a node can name: folders of ComfyUI's input, and those made of pictures in the graph."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..headroom.media import holds_media, kind_of
from .errors import InputError

if TYPE_CHECKING:
    import torch

NO_FOLDER = "(drop files here or choose a folder)"
NO_CONTROL = "(none)"
NO_IMAGE = "(none)"
DATASETS = "headroom/datasets"  # in the input folder; below it, one folder for each content
_DEPTH = 4
_MOST = 200


def folder_names(root: Path) -> list[str]:
    """The folders of the input folder that hold something to train on, the newest first."""
    found = sorted(_folders(root, _DEPTH), key=lambda path: -_age(path))[:_MOST]
    return [path.relative_to(root).as_posix() for path in found]


def image_names(root: Path) -> list[str]:
    """The pictures that lie in the input folder itself."""
    return sorted((entry.name for entry in _entries(root) if kind_of(entry.name) == "image"), key=str.casefold)


def find_folder(name: str, root: Path) -> Path:
    """The folder a name stands for. Raises InputError where it is not there, or a link leads out of the input."""
    return _inside(name, root, "no_such_folder", Path.is_dir)


def find_image(name: str, root: Path) -> Path:
    """The picture a name stands for. Raises InputError as ``find_folder`` does."""
    return _inside(name, root, "no_such_image", Path.is_file)


def fingerprint(name: str, root: Path) -> str:
    """Changes when a folder's files do: their names, sizes and times, not their content.

    AI Toolkit's caches are passed over: folders that begin with ``_``, and what begins with a dot.
    """
    try:
        folder = find_folder(name, root)
        paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
        kept = sorted(path for path in paths if not _is_cache(path))
        states = [(path.as_posix(), (folder / path).stat()) for path in kept]
    except (InputError, OSError):
        return repr([name])
    seen = repr([(path, state.st_size, state.st_mtime_ns) for path, state in states])
    return hashlib.sha256(seen.encode()).hexdigest()


def captions_of(texts: Sequence[str], pictures: int) -> list[str]:
    """A caption for each picture: as many texts, as many lines of one text, or one for all.

    Raises InputError for any other number of them.
    """
    if not texts:
        return [""] * pictures
    lines = texts[0].splitlines() if len(texts) == 1 and pictures > 1 else list(texts)
    if len(lines) != pictures:
        lines = [line for line in lines if line.strip()]
    if len(lines) == 1:
        lines *= pictures
    if len(lines) != pictures:
        raise InputError("captions", captions=len(lines), pictures=pictures)
    return [line.strip() for line in lines]


def keep_pictures(batches: Sequence[torch.Tensor], texts: Sequence[str], root: Path) -> str:
    """Write pictures (``[n, height, width, channels]``, 0 to 1) and captions as a dataset; answers with its name.

    The name is made of their content: the same pictures are written once. Raises InputError where the captions do not
    fit the pictures, or there are none.
    """
    from PIL import Image

    pictures = [_bytes_of(picture) for batch in batches for picture in batch]
    if not pictures:
        raise InputError("no_pictures")
    captions = captions_of(texts, len(pictures))
    content = hashlib.sha256()
    for picture, caption in zip(pictures, captions, strict=True):
        content.update(repr((picture.shape, caption)).encode())
        content.update(picture.tobytes())
    name = f"{DATASETS}/{content.hexdigest()[:16]}"
    if not (root / name).is_dir():
        with being_written(root / name) as folder:
            for number, (picture, caption) in enumerate(zip(pictures, captions, strict=True), 1):
                Image.fromarray(picture).save(folder / f"{number:04d}.png", compress_level=1)
                if caption:
                    (folder / f"{number:04d}.txt").write_text(caption + "\n", encoding="utf-8")
    return name


@contextmanager
def being_written(final: Path) -> Iterator[Path]:
    """A folder that appears under its name only when all of it is written, and not at all when that fails."""
    final.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".writing-", dir=final.parent))
    try:
        yield folder
        folder.chmod(0o755)  # temporary folders are their owner's alone
        if not final.is_dir():
            folder.rename(final)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _bytes_of(picture: torch.Tensor) -> Any:
    return (picture[..., :3].clamp(0, 1) * 255).round().byte().cpu().numpy()


def _is_cache(path: Path) -> bool:
    return path.name.startswith(".") or any(part.startswith((".", "_")) for part in path.parts[:-1])


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    for entry in _entries(folder):
        if entry.is_dir():
            if holds_media(Path(entry.path)):
                yield Path(entry.path)
            if depth > 1:
                yield from _folders(Path(entry.path), depth - 1)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    except OSError:
        return []


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _inside(name: str, root: Path, problem: str, there: Any) -> Path:
    try:
        path = (root / name).resolve(strict=True)
        good = there(path) and path.is_relative_to(root.resolve()) and path != root.resolve()
    except (OSError, ValueError, RuntimeError):
        path, good = root, False
    if not good:
        raise InputError(problem, name=name[:200])
    return path
