"""What AI Toolkit would use for every key of a job: what is written, another spelling of it, or its code's default.

The keys are data: ``configs/job_keys.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from .. import configs
from ..contracts import Job
from .errors import wrong
from .paths import ABSENT, Steps, follow, parse_path

_PLACEHOLDER = re.compile(r"\$\{[^}]+\}|\[name\]")


def is_placeholder(value: Any) -> bool:
    """Whether a value is filled in by AI Toolkit only when the job runs (``${NAME}``, ``[name]``)."""
    return isinstance(value, str) and _PLACEHOLDER.search(value) is not None


@cache
def _spellings() -> dict[str, tuple[str, ...]]:
    """For each key of the table the other names it may be written under, which come first."""
    found: dict[str, tuple[str, ...]] = {}
    for other, name in configs.load("job_keys")["other_spellings"].items():
        if "same_as" not in configs.load("job_keys")["keys"].get(name, {}):
            found[name] = (*found.get(name, ()), other)
    return found


class Settings:
    """One process of a job, read as AI Toolkit reads it. Paths are relative to the process (``datasets[0].fps``)."""

    def __init__(self, data: Mapping[str, Any], process: Mapping[str, Any], index: int) -> None:
        self.data = data
        self.index = index
        self._process = process
        self._keys: Mapping[str, Mapping[str, Any]] = configs.load("job_keys")["keys"]

    def _steps(self, path: str) -> Steps:
        process, steps = parse_path(path)
        if process not in (0, self.index):
            raise wrong("job.error.path", path=path)
        return steps

    def has(self, path: str) -> bool:
        """Whether the key is written in the job, under this very name, even with nothing behind it."""
        return follow(self._process, self._steps(path)) is not ABSENT

    def written(self, path: str) -> Any:
        """The value as written under this very name; ``None`` where the key is absent."""
        found = follow(self._process, self._steps(path))
        return None if found is ABSENT else found

    def place(self, path: str) -> str:
        """The name under which the key has to be written to take effect here (``network.rank`` where that is used)."""
        for other in _spellings().get(path, ()):
            if self.written(other) is not None:
                return other
        return path

    def get(self, path: str) -> Any:
        """What AI Toolkit would use; for a key that the table does not have, what is written, or ``None``.

        A value that only the run fills in (``${NAME}``) is given as written. Raises JobError for what is no path.
        """
        steps = self._steps(path)
        key = self._keys.get(_pattern(steps))
        if key is None:
            return self.written(path)
        if "always" in key:
            return self.get(_fill(key["always"], steps))
        if "forced" in key and self.get(_fill(key["forced"], steps)) is True:
            return True
        if any(self.get(_fill(other, steps)) for other in key.get("off_when", ())):
            return False
        value = self._value(path, steps, key)
        if key["type"] == "bool" and not is_placeholder(value):
            value = bool(value)
        elif key["type"] == "float" and self.trains and not is_placeholder(value):
            value = float(value)
        rule = key.get("rewrite")
        if rule and value == rule["from"] and self.get(_fill(rule["when"], steps)) is True:
            value = rule["to"]
        return value

    def _value(self, path: str, steps: Steps, key: Mapping[str, Any]) -> Any:
        for other in _spellings().get(path, ()):
            if (value := self.written(other)) is not None:
                return value
        value = follow(self._process, steps)
        if value is not ABSENT and (value is not None or key.get("on_null") == "value"):
            return value
        return self.get(_fill(key["same_as"], steps)) if "same_as" in key else key["default"]

    @property
    def datasets(self) -> int:
        """The number of dataset entries as written; a list of resolutions makes AI Toolkit split one (buckets)."""
        found = self.written("datasets")
        return len(found) if isinstance(found, list) else 0

    @property
    def trains(self) -> bool:
        """Whether the process trains a model, as opposed to captioning, extracting or generating."""
        return self._process.get("type") not in configs.load("job_keys")["not_training"]

    @property
    def architecture(self) -> str:
        """``model.arch`` with its tag, or what the old flags say, or AI Toolkit's default.

        Source: toolkit/config_modules.py ModelConfig.
        """
        table = configs.load("job_keys")
        written = self.get("model.arch")
        if written is not None:
            return str(written)
        for flag, architecture in table["architecture_flags"]:
            if self.get(f"model.{flag}"):
                return str(architecture)
        return str(table["default_architecture"])

    @property
    def base_architecture(self) -> str:
        """The architecture as AI Toolkit's code knows it: without a tag, renamed ones by their present name."""
        base = self.architecture.split(":")[0]
        return str(configs.load("job_keys")["renamed_architectures"].get(base, base))


def _pattern(steps: Steps) -> str:
    """The steps as the table writes them: ``datasets[].resolution``; ``first_sample`` is another ``sample``."""
    text = "".join("[]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
    return re.sub(r"^first_sample\b", "sample", text)


def _fill(other: str, steps: Steps) -> str:
    """A path of the table with its list index taken from the key that refers to it."""
    if "[]" in other:
        index = next(step for step in steps if isinstance(step, int))
        other = other.replace("[]", f"[{index}]")
    if steps[0] == "first_sample":
        other = re.sub(r"^sample\b", "first_sample", other)
    return other


def settings(job: Job, process: int = 0) -> Settings:
    """The settings of one process of a job. Raises JobError where the job has no such process."""
    processes = job.data["config"]["process"]
    if not 0 <= process < len(processes):
        raise wrong("job.error.no_process", count=len(processes), path=f"config.process[{process}]")
    return Settings(job.data, processes[process], process)
