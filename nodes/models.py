"""The models a node can name: the architecture's own, those in ComfyUI's model folders, and downloaded ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .errors import InputError

OWN = "(the architecture's own)"
DOWNLOADED = "downloaded: "
# Kinds of ComfyUI's model folders that hold whole models; what else lies there is a part of one.
_KINDS = ("diffusers", "checkpoints", "diffusion_models")
_ENDING = ".safetensors"  # other formats can hide code
_WHOLE = "model_index.json"  # what a model in folders has at its top
_DEPTH = 3
_MOST = 300


def model_names(roots: dict[str, list[Path]], cache: Path) -> list[str]:
    """What a node offers: ``kind: path`` for files and folders of ``roots`` (kind -> folders), then the downloaded."""
    found = []
    for kind, folders in roots.items():
        for folder in folders:
            found += [f"{kind}: {path.relative_to(folder).as_posix()}" for path in _models(folder, _DEPTH)]
    found = list(dict.fromkeys(found))
    return [OWN, *sorted(found, key=str.casefold)[:_MOST], *(DOWNLOADED + name for name in _downloaded(cache))]


def find_model(name: str, roots: dict[str, list[Path]], cache: Path) -> str | None:
    """What AI Toolkit is told for a name: a path, a repository that is already here, or ``None`` for its own.

    Raises InputError where there is no such model here, or where the name leads out of its folder.
    """
    if name == OWN:
        return None
    if name.startswith(DOWNLOADED) and name.removeprefix(DOWNLOADED) in _downloaded(cache):
        return name.removeprefix(DOWNLOADED)
    kind, _, rest = name.partition(": ")
    for folder in roots.get(kind, ()):
        path = folder / rest
        if rest and _is_model(path) and os.path.normpath(path).startswith(os.path.normpath(folder) + os.sep):
            return str(path)
    raise InputError("no_such_model", name=name[:200])


def _models(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name.casefold())
    except OSError:
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.name.startswith("."):
            continue
        if _is_model(path):
            yield path
        elif depth > 1 and entry.is_dir():
            yield from _models(path, depth - 1)


def _is_model(path: Path) -> bool:
    return (path.suffix.lower() == _ENDING and path.is_file()) or (path / _WHOLE).is_file()


def _downloaded(cache: Path) -> list[str]:
    """Repositories of whole models in Hugging Face's cache (``models--owner--name``)."""
    found = []
    for folder in cache.glob("models--*--*"):
        if any(folder.glob(f"snapshots/*/{_WHOLE}")):
            found.append("/".join(folder.name.split("--")[1:]))
    return sorted(found, key=str.casefold)


def model_roots() -> dict[str, list[Path]]:
    """ComfyUI's folders of whole models, as they are set now."""
    import folder_paths

    return {kind: [Path(each) for each in folder_paths.get_folder_paths(kind)] for kind in _KINDS if _known(kind)}


def _known(kind: str) -> bool:
    import folder_paths

    return kind in folder_paths.folder_names_and_paths
