"""Make a job safe that came with somebody else's workflow: where it writes, what it reads, what it sends and runs.

What can be put right without another training is a Change; what cannot is a refusal, and then nothing is run. Rules are
data (``configs/stranger.yaml``). The command line runs the user's own file and asks nothing of this.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import configs
from ..contracts import Change, Job, Sentence, say
from ..guard.places import where
from .editing import edit
from .errors import JobError
from .reading import read_job
from .tree import line_of

LONGEST_NAME = 100  # characters; AI Toolkit appends step numbers and endings, and file systems end at 255 bytes

_PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")  # toolkit/config.py replace_env_vars_in_string, in comments and keys too
_NO_NAME = re.compile(r'[\x00-\x1f\x7f\ud800-\udfff/\\:*?"<>|]|^[\s.~-]|[\s.]$')
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.I)  # names that Windows keeps for devices
_ELSEWHERE = re.compile(r"^[/\\~]|^[A-Za-z]:|(?:^|[/\\])\.\.(?:[/\\]|$)|://|^file:", re.I)
_NETWORK = re.compile(r"^[/\\]{2}|://|^file:", re.I)
# Where a trigger word, filled in for [trigger] in a prompt, could make a flag that was not one before.
_FLAG_TO_BE = re.compile(r"--[^ ]*[\[\]]|-\[.*\]-", re.DOTALL)
_FLAG_BRINGER = re.compile(r"--|^\s*-|-\s*$|-\[|\]-")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9_][\w.-]*)*")

Steps = tuple[Any, ...]


@dataclass(frozen=True)
class Rules:
    """What the server's owner allows a job from elsewhere.

    ``output`` is the run's own folder, ``reads`` the folders it may read, ``base`` the folder in which AI Toolkit runs
    (where relative paths begin). ``variables`` may be filled into ``${…}``; ``process_types`` are allowed beyond AI
    Toolkit's own trainers; ``push`` and ``track`` let it upload to Hugging Face and report to Weights & Biases.
    """

    output: Path
    reads: tuple[Path, ...]
    base: Path
    variables: frozenset[str] = frozenset()
    process_types: frozenset[str] = frozenset()
    push: bool = False
    track: bool = False


@dataclass(frozen=True)
class Vetted:
    """The job as it may be run, and what was changed in it; ``None`` where ``refusals`` say what stands against it."""

    job: Job | None
    changes: tuple[Change, ...] = ()
    refusals: tuple[Sentence, ...] = ()


def vet(job: Job, rules: Rules, environment: Mapping[str, str] | None = None) -> Vetted:
    """Judge a job and make it safe. The result, judged again, needs no further change: that is checked.

    ``environment`` is the one that the run will have (default: this process's).
    """
    values = os.environ if environment is None else environment
    changes, refusals = _judge(job, rules, values)
    if refusals:
        return Vetted(None, (), refusals)
    try:
        safe = edit(job, changes) if changes else job
    except JobError as error:
        return Vetted(None, (), (error.sentence,))
    left, refusals = _judge(safe, rules, values)
    if left or refusals:  # an edit would have written out what was hidden, such as an escaped placeholder
        return Vetted(None, (), refusals or (say("stranger.unsure", paths=[change.path for change in left]),))
    return Vetted(safe, changes)


def _judge(job: Job, rules: Rules, values: Mapping[str, str]) -> tuple[tuple[Change, ...], tuple[Sentence, ...]]:
    refusals = list(_placeholders(job, rules, values))
    if refusals:
        return (), tuple(refusals)
    try:
        data = _as_run(job, values)
    except JobError as error:
        return (), (error.sentence,)
    name = data["config"]["name"]
    if not is_job_name(name):
        return (), (say("stranger.name", name=_short(name)),)
    if data["job"] != "extension":
        refusals.append(say("stranger.kind", kind=_short(data["job"])))
    changes: list[Change] = []
    for index, process in enumerate(data["config"]["process"]):
        prefix = f"process[{index}]." if index else ""
        kind = process["type"]
        if kind not in configs.load("stranger")["process_types"] and kind not in rules.process_types:
            refusals.append(say("stranger.type", path=f"{prefix}type", kind=_short(kind)))
        changes += _outputs(process, prefix, name, rules)
        changes += _sent(process, prefix, rules)
    refusals += _Reading(rules, data).refusals()
    return tuple(changes), tuple(refusals)


def _placeholders(job: Job, rules: Rules, values: Mapping[str, str]) -> Iterator[Sentence]:
    """Placeholders that may not or cannot be filled in: in the text, and hidden by escapes in what is read from it."""
    seen = set()
    for found in _PLACEHOLDER.finditer(job.text):
        name = found[1]
        if name in seen or (name in rules.variables and name in values):
            continue
        seen.add(name)
        key = "stranger.variable_unset" if name in rules.variables else "stranger.variable"
        yield say(key, name=_short(name), line=line_of(job.text, found.start()))
    for text in _texts(job.data):
        for found in _PLACEHOLDER.finditer(text):
            if found[1] not in seen and found[1] not in rules.variables:
                seen.add(found[1])
                yield say("stranger.variable_hidden", name=_short(found[1]))


def _texts(data: Any) -> Iterator[str]:
    """Every key and every text in parsed data."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from _texts(value)
    elif isinstance(data, list):
        for item in data:
            yield from _texts(item)
    elif isinstance(data, str):
        yield data


def _as_run(job: Job, values: Mapping[str, str]) -> Any:
    """The job as AI Toolkit sees it: variables filled in, then the name (toolkit/config.py get_config).

    The name is judged before it is trusted: it is put into the job's JSON, where a quote in it could add keys.
    """
    text = _PLACEHOLDER.sub(lambda found: values[found[1]], job.text)
    data = read_job(text, job.origin, job.syntax).data if text != job.text else job.data
    name = data["config"]["name"]
    return json.loads(json.dumps(data).replace("[name]", str(name))) if is_job_name(name) else data


def is_job_name(name: Any) -> bool:
    """Whether a job's name is one folder's name on every system."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= LONGEST_NAME
        and len(name.encode("utf-8", "replace")) <= 2 * LONGEST_NAME
        and not _NO_NAME.search(name)
        and not _RESERVED.fullmatch(name)
    )


def _outputs(process: Mapping[str, Any], prefix: str, name: str, rules: Rules) -> Iterator[Change]:
    table = configs.load("stranger")
    for key, below in table["writes"].items():
        wanted = str(rules.output / below) if below else str(rules.output)
        if process.get(key) == wanted or (process.get(key) is None and key not in table["always_written"]):
            continue
        yield _change(prefix + key, process.get(key), wanted, "stranger.output")
    if process.get("name") not in (None, name):
        yield _change(f"{prefix}name", process["name"], name, "stranger.process_name")


def _sent(process: Mapping[str, Any], prefix: str, rules: Rules) -> Iterator[Change]:
    permitted = {"push": rules.push, "track": rules.track}
    for path, permission in configs.load("stranger")["sends"].items():
        section, _, key = path.partition(".")
        inside = process.get(section)
        if isinstance(inside, Mapping) and inside.get(key) and not permitted[permission]:
            yield _change(prefix + path, inside[key], False, f"stranger.{permission}")


def _change(path: str, old: Any, new: Any, reason: str) -> Change:
    return Change("safety", path, old, new, say(reason), say("stranger.price"), where(path))


class _Reading:
    """What the texts of a job, as it is run, would have AI Toolkit open."""

    def __init__(self, rules: Rules, data: Any) -> None:
        self.data = data
        self.base = rules.base
        self.roots = [Path(os.path.realpath(root)) for root in (*rules.reads, rules.output)]
        self.shown = [str(root) for root in rules.reads]
        self.table = configs.load("stranger")
        self.named = re.compile(self.table["reads_named"])

    def refusals(self) -> Iterator[Sentence]:
        yield from self._walk(self.data, ())

    def _walk(self, value: Any, steps: Steps) -> Iterator[Sentence]:
        if isinstance(value, Mapping):
            for key, below in value.items():
                if key in self.table["loads_code"] and below:
                    yield say("stranger.loads_code", path=_path((*steps, key)))
                elif _ELSEWHERE.search(key):
                    yield say("stranger.elsewhere", path=_path(steps), value=_short(key), allowed=self.shown)
                else:
                    yield from self._prompt(key, steps)
                    yield from self._walk(below, (*steps, key))
        elif isinstance(value, list):
            for at, item in enumerate(value):
                yield from self._walk(item, (*steps, at))
        elif isinstance(value, str) and value and steps[0] not in self.table["prose_sections"]:
            yield from self._prompt(value, steps)
            yield from self._text(value, steps)

    def _text(self, value: str, steps: Steps) -> Iterator[Sentence]:
        path, pattern = _path(steps), _pattern(steps)
        names = [step for step in steps if isinstance(step, str)]
        if pattern == "name" or pattern in self.table["writes"] or pattern in self.table["ignored"]:
            return  # set by us, or read by nobody
        if pattern in self.table["reads_if_there"]:
            if _ELSEWHERE.search(value) or self._is_there(value):
                yield from self._file(value, path, pattern)
        elif pattern in self.table["after_bar"]:
            for part in value.split("|")[1:]:
                yield from self._file(part, path, pattern)
        elif pattern in self.table["reads"] or any(self.named.search(name) for name in names):
            listed = names[-1] in self.table["comma_lists"]
            for part in value.split(",") if listed else (value,):
                yield from self._file(part.strip() if listed else part, path, pattern)
        elif not (names and names[-1] in self.table["prose"]) and _ELSEWHERE.search(value):
            yield say("stranger.elsewhere", path=path, value=_short(value), allowed=self.shown)

    def _prompt(self, value: str, steps: Steps) -> Iterator[Sentence]:
        """What flags in a text would open; any text, since older spellings make prompts of much."""
        path, pattern = _path(steps), _pattern(steps)
        for part in value.strip().split("--")[1:]:
            flag = part.split(" ")[0].strip()
            if flag in self.table["prompt_files"]:
                yield from self._file(part[len(flag) :].strip(), path, pattern)
        bringer = bool(steps) and steps[-1] in self.table["triggers"] and _FLAG_BRINGER.search(value)
        if bringer or _FLAG_TO_BE.search(value):
            yield say("stranger.flag", path=path, value=_short(value))

    def _file(self, value: str, path: str, pattern: str) -> Iterator[Sentence]:
        if not value:
            return
        files_only = pattern.startswith(tuple(self.table["files_only"]))
        if _NETWORK.search(value):  # never touched: Windows would sign in to the other machine
            yield say("stranger.network", path=path, value=_short(value), allowed=self.shown)
        elif not files_only and _REPOSITORY.fullmatch(value) and not self._is_there(value):
            if Path(value).suffix.lower() in self.table["pickles"]:
                yield say("stranger.pickle", path=path, value=_short(value))
        elif not self._inside(value):
            yield say("stranger.elsewhere", path=path, value=_short(value), allowed=self.shown)
        elif any(each.suffix.lower() in self.table["pickles"] for each in (Path(value), self._target(value))):
            yield say("stranger.pickle", path=path, value=_short(value))
        elif pattern in self.table["folders_only"] and self._target(value).is_file():
            yield say("stranger.list_of_files", path=path, value=_short(value))

    def _is_there(self, value: str) -> bool:
        try:
            return (self.base / value).exists()
        except (OSError, ValueError):  # longer than a name can be, or with a zero byte
            return False

    def _target(self, value: str) -> Path:
        """Where a path leads, links followed."""
        return Path(os.path.realpath(self.base / value))

    def _inside(self, value: str) -> bool:
        """Whether a path stays in the allowed folders, as written and with its links followed."""
        if value.startswith("~"):  # some loaders put the home folder there
            return False
        try:
            target = self._target(value)
        except (OSError, ValueError):
            return False
        return any(target.is_relative_to(root) for root in self.roots)


def _path(steps: Steps) -> str:
    """A path as the reports print it: below the first process without a prefix."""
    if steps[:2] == ("config", "process") and len(steps) > 3:
        steps = steps[3:] if steps[2] == 0 else steps[1:]
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_short(step)}" for step in steps).removeprefix(".")


def _pattern(steps: Steps) -> str:
    """A path as the table writes it: below any process, ``[]`` for every entry of a list."""
    if steps[:2] == ("config", "process"):
        steps = steps[3:]
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _short(value: Any) -> str:
    text = "".join(sign if sign.isprintable() else " " for sign in str(value))
    return text if len(text) <= 80 else text[:77] + "..."
