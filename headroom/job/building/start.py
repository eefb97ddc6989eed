"""Build a job without writing YAML: start from what AI Toolkit's form starts with, then set keys and add datasets.

The start is data (``configs/starting/common.yaml`` and each architecture's ``defaults``). A job that was built here is
written anew, in the form's key order; in any other job only the lines that change do.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from ... import configs
from ...contracts import Change, Job, say
from ...guard.architectures import Architecture, architecture
from ..editing import edit
from ..paths import parse_path
from ..placing import Placing
from ..reading import read_job, read_tree
from ..settings import settings
from ..writing import block_yaml

_DATASET = "datasets[]."


def new_job(arch: str) -> Job:
    """A job of this architecture (``model.arch``) as AI Toolkit's form starts it, yet without datasets and previews."""
    about = architecture(arch)
    data = deepcopy(configs.load("starting/common"))
    process = data["config"]["process"][0]
    for path, value in about.defaults.items():
        if not path.startswith(_DATASET):
            _put(process, path, deepcopy(value))
    for path in about.absent:
        _drop(process, path)
    process["datasets"] = []
    process["train"]["disable_sampling"] = True
    process["model"]["arch"] = arch
    return _written(data)


def new_dataset(about: Architecture) -> dict[str, Any]:
    """A dataset as AI Toolkit's form starts it for an architecture; its folder is still to be named."""
    found = deepcopy(configs.load("starting/common")["config"]["process"][0]["datasets"][0])
    for path, value in about.defaults.items():
        if path.startswith(_DATASET):
            found[path.removeprefix(_DATASET)] = deepcopy(value)
    return found


def with_keys(job: Job, values: Mapping[str, Any]) -> Job:
    """The job with these keys of its first process set. Raises JobError where its text has no place for one."""
    if _built_here(job):
        data = deepcopy(dict(job.data))
        for path, value in values.items():
            _put(data["config"]["process"][0], path, value)
        return _written(data)
    used, why = settings(job), say("building.chosen")
    changes = [Change("", used.place(path), used.written(path), new, why, why, why) for path, new in values.items()]
    return edit(job, changes)


def with_name(job: Job, name: str) -> Job:
    """The job under another name. Raises JobError."""
    placing = Placing(read_tree(job.text, job.syntax))
    placing.put(("config", "name"), name, None)
    return read_job(placing.text(), job.origin, job.syntax)


def with_dataset(job: Job, dataset: Mapping[str, Any]) -> Job:
    """The job with one more dataset, behind those it has. Raises JobError."""
    there = settings(job).written("datasets")
    return with_keys(job, {"datasets": [*(there if isinstance(there, list) else ()), dict(dataset)]})


def _built_here(job: Job) -> bool:
    return job.syntax == "yaml" and job.text == block_yaml(job.data)


def _written(data: Mapping[str, Any]) -> Job:
    return read_job(block_yaml(data), "built", "yaml")


def _put(process: dict[str, Any], path: str, value: Any) -> None:
    *above, last = parse_path(path)[1]
    inside: Any = process
    for step in above:
        inside = inside.setdefault(step, {}) if isinstance(inside, dict) else inside[step]
    inside[last] = value


def _drop(process: dict[str, Any], path: str) -> None:
    *above, last = parse_path(path)[1]
    for step in above:
        process = process[step]
    process.pop(last, None)
