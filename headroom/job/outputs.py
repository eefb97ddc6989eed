"""Where a job, run as its author wrote it, has AI Toolkit write: ``training_folder``/``name`` of each process.

Source: jobs/process/BaseProcess.py and BaseTrainProcess.py ``__init__``; toolkit/config.py ``preprocess_config``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from ..contracts import Change, Job, say
from ..guard.places import where
from .editing import edit
from .paths import write_path

_VARIABLE = re.compile(r"\$\{([^}]+)\}")


def save_roots(job: Job, base: Path) -> list[Path]:
    """The folder of each process that names one; ``base`` is where relative ones start: AI Toolkit's own folder."""
    return [root for _, root in _roots(job, base)]


def with_another_folder(job: Job, base: Path) -> tuple[Job, tuple[Change, ...]]:
    """The job with other folders where its own are there already, so that it starts anew and nothing is written over.

    AI Toolkit goes on from what lies in the folder; the process's own ``name`` changes that and no file's name.
    Raises JobError where the name cannot be set.
    """
    changes = []
    for index, root in _roots(job, base):
        if not root.exists():
            continue
        free = next(name for number in count(2) if not (root.parent / (name := f"{root.name}@{number}")).exists())
        path, old = write_path(("name",), index), job.data["config"]["process"][index].get("name")
        reason = say("train.fresh.reason", folder=str(root))
        changes.append(Change("fresh", path, old, free, reason, say("train.fresh.price"), where(path)))
    return (edit(job, changes), tuple(changes)) if changes else (job, ())


def _roots(job: Job, base: Path) -> list[tuple[int, Path]]:
    config = job.data["config"]
    found = []
    for index, process in enumerate(config["process"]):
        folder = process.get("training_folder", config.get("training_folder"))
        name = process.get("name", config["name"])
        if isinstance(folder, str) and isinstance(name, str) and name.strip("./\\ "):
            found.append((index, Path(base, _filled(folder, config), _filled(name, config))))
    return found


def _filled(text: str, config: Mapping[str, Any]) -> str:
    """With the name and the variables of the environment that AI Toolkit fills in."""
    return _VARIABLE.sub(lambda found: os.environ.get(found[1], found[0]), text).replace("[name]", str(config["name"]))
