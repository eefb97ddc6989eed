"""What a job in a workflow may do on this server: it may be a stranger's, so the server's own settings decide.

Settings, in the environment or in ``headroom.json``: ``HEADROOM_READS`` (more folders that jobs may read, separated as
in ``PATH``), ``HEADROOM_VARIABLES`` (names that ``${…}`` may fill in) and ``HEADROOM_PROCESS_TYPES``, separated by
commas; ``HEADROOM_PUSH`` and ``HEADROOM_TRACK`` (``1``: jobs may upload to Hugging Face, report to Weights & Biases).
"""

from __future__ import annotations

import os
from pathlib import Path

import folder_paths

from ..headroom.job.stranger import Rules
from ..headroom.places import model_cache
from ..headroom.run.locate import Toolkit
from .places import places, setting

_NO_MODELS = ("custom_nodes", "configs")


def rules(toolkit: Toolkit) -> Rules:
    """The rules as they are set now; ``output`` is narrowed to each run's own folder when it begins."""
    return Rules(
        output=places().runs,
        reads=readable(),
        base=toolkit.folder,
        variables=frozenset(_listed("HEADROOM_VARIABLES")),
        process_types=frozenset(_listed("HEADROOM_PROCESS_TYPES")),
        push=setting("HEADROOM_PUSH") == "1",
        track=setting("HEADROOM_TRACK") == "1",
    )


def readable() -> tuple[Path, ...]:
    """ComfyUI's input and model folders, the runs, Hugging Face's cache, and what the settings add."""
    models = [folder_paths.models_dir]
    for kind, (folders, _) in folder_paths.folder_names_and_paths.items():
        if kind not in _NO_MODELS:
            models += folders
    added = [Path(folder).expanduser() for folder in (setting("HEADROOM_READS") or "").split(os.pathsep) if folder]
    found = [Path(folder_paths.get_input_directory()), *map(Path, models), places().runs, model_cache(), *added]
    kept: list[Path] = []
    for folder in found:
        if not any(folder.is_relative_to(each) for each in kept):  # models/ holds most kinds of them
            kept.append(folder)
    return tuple(kept)


def _listed(name: str) -> list[str]:
    return [each.strip() for each in (setting(name) or "").split(",") if each.strip()]
