"""Finished LoRAs in core's own list, as ``headroom/<name of the run>.safetensors``: links into the runs, else copies.

They lie in a folder of their own beside the runs, so that no half-written checkpoint is ever offered; a link of the
file system needs no room and, other than a symbolic link, no rights on Windows. Removing a run leaves its LoRA here.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import folder_paths

from .places import places

if TYPE_CHECKING:
    from ..headroom.run.store import Run

_LISTED_AS = "headroom"


def register() -> None:
    """Tell core where finished LoRAs lie; the folder need not exist yet."""
    folder_paths.add_model_folder_path("loras", str(_folder()))


def _folder() -> Path:
    return places().runs.absolute() / ".loras"


def listed(run: Run, checkpoint: Path) -> list[str]:
    """The names under which core lists a finished run's LoRA, the high noise part of a pair first. Raises OSError."""
    from .run_outputs import trained_parts

    folder = _folder() / _LISTED_AS
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for part, file in trained_parts(checkpoint):
        there = folder / f"{run.folder.parent.name}{part}{file.suffix}"
        if not _same(there, file):
            _put(file, there)
        names.append(str(there.relative_to(_folder())))  # with the system's own separator, as core writes them
    folder_paths.filename_list_cache.pop("loras", None)
    return names


def _same(there: Path, file: Path) -> bool:
    try:
        found, made = there.stat(), file.stat()
    except OSError:
        return False
    return (found.st_size, found.st_mtime_ns) == (made.st_size, made.st_mtime_ns)


def _put(file: Path, there: Path) -> None:
    """Whole or not at all, whatever was there."""
    new = there.with_name(f".{there.name}.new")
    new.unlink(missing_ok=True)
    try:
        os.link(file, new)
    except OSError:  # another disk, or a file system without links
        shutil.copy2(file, new)
    new.replace(there)
