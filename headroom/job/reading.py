"""Read a job from text, a file or AI Toolkit's own log, and refuse what AI Toolkit could not run, once and clearly."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from .. import configs
from ..contracts import Job
from .errors import JobError, wrong
from .json_reader import read_json
from .settings import is_placeholder
from .tree import Tree
from .writing import block_yaml
from .yaml_reader import read_yaml

SIZE_LIMIT = 192 * 1024  # characters; a long job has twenty thousand

Syntax = Literal["yaml", "json"]

_JSON_NAMES = (".json", ".jsonc")
_YAML_NAMES = (".yaml", ".yml")
# What a log has and no job does: a traceback, a progress bar, a banner, a time stamp at a line's start.
_LOG = re.compile(
    r"^Traceback \(most recent call last\)|\d%\|.*\||^#{8,}[ \t]*$|^# Running job: |^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d"
    r"|out of memory|^\S*Error: ",
    re.MULTILINE,
)


def read_job(text: str, origin: str = "pasted", syntax: Syntax | None = None) -> Job:
    """A job from its text. Without ``syntax``, the origin's ending decides, else the text itself.

    Raises JobError, naming key, line and way out, for anything AI Toolkit could not run.
    """
    _check_size(len(text))
    if not text.strip().strip("\ufeff"):
        raise wrong("job.error.empty")
    syntax, tree = _parse(text, syntax or _syntax_of(origin))
    _check(tree)
    return Job(text, syntax, origin, tree.data)


def read_job_file(path: str | Path) -> Job:
    """A job from a file, which has to be UTF-8 as for AI Toolkit. Raises JobError."""
    file = Path(path)
    try:
        _check_size(file.stat().st_size)
        content = file.read_bytes()
    except OSError as error:
        raise wrong("job.error.file", file=file.name, detail=error.strerror or str(error)) from None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise wrong("job.error.encoding", line=content[: error.start].count(b"\n") + 1) from None
    return read_job(text, file.name)


def job_from_log(config_json: str, name: str | None) -> Job:
    """The job that AI Toolkit printed at the top of its log, written out as YAML.

    ``config_json`` is the configuration of one process (jobs/process/BaseProcess.py prints it), ``name`` the job's,
    from the banner. Raises JobError where it is not such a configuration.
    """
    _check_size(len(config_json))
    process = read_json(config_json).data
    if not isinstance(process, dict) or not isinstance(process.get("type"), str):
        raise wrong("job.error.log_config")
    data = {"job": "extension", "config": {"name": name or "from_log", "process": [process]}}
    job = read_job(block_yaml(data), "log", "yaml")
    if job.data != data:
        raise wrong("job.error.log_config")
    return job


def _is_log(text: str) -> bool:
    return _LOG.search(text) is not None and re.search(r"^job\s*:", text, re.MULTILINE) is None


def _check_size(size: int) -> None:
    if size > SIZE_LIMIT:
        raise wrong("job.error.size", kib=size // 1024, limit=SIZE_LIMIT // 1024)


def _syntax_of(origin: str) -> Syntax | None:
    ending = Path(origin).suffix.lower()
    return "json" if ending in _JSON_NAMES else "yaml" if ending in _YAML_NAMES else None


def _parse(text: str, syntax: Syntax | None) -> tuple[Syntax, Tree]:
    if syntax == "json":
        return "json", read_tree(text, "json")
    first: JobError | None = None
    if syntax is None and re.match(r"\s*[{\[]", text):
        try:
            return "json", read_tree(text, "json")
        except JobError as error:
            if error.reason == "job.error.json_comment" or not error.reason.startswith("job.error.json"):
                raise  # YAML might take a // for the beginning of a key
            first = error
    try:
        return "yaml", read_tree(text, "yaml")
    except JobError as error:
        if _is_log(text):
            raise wrong("job.error.is_log") from None
        if first is not None and re.match(r'\s*\{\s*"', text):
            raise first from None
        raise error from None


@lru_cache(maxsize=4)
def read_tree(text: str, syntax: Syntax) -> Tree:
    """The tree of a job's text in a known syntax; the last ones are kept, as a job is read and then edited."""
    return read_json(text) if syntax == "json" else read_yaml(text)


def _check(tree: Tree) -> None:
    """What toolkit/job.py, jobs/BaseJob.py and the trainer's first lines demand of a job, and nothing more."""
    data = tree.data
    table = configs.load("job_keys")
    if not isinstance(data, dict):
        raise wrong("job.error.is_log" if _is_log(tree.text) else "job.error.not_mapping", line=1)
    if not ("job" in data and "config" in data):
        _check_lookalikes(data, tree.text)
        missing = "job" if "job" not in data else "config"
        raise wrong("job.error.missing", path=missing)
    if data["job"] not in table["job_kinds"]:
        raise _at(tree, ("job",), "job.error.kind", kinds=table["job_kinds"], value=_shown(data["job"]))
    config = data["config"]
    if not isinstance(config, dict):
        raise _at(tree, ("config",), "job.error.mapping")
    for key in ("name", "process"):
        if key not in config:
            raise _at(tree, ("config",), "job.error.missing", path=f"config.{key}")
    _check_name(tree, config["name"])
    processes = config["process"]
    if not isinstance(processes, list) or not processes:
        raise _at(tree, ("config", "process"), "job.error.process_list")
    for index, process in enumerate(processes):
        where = ("config", "process", index)
        if not isinstance(process, dict):
            raise _at(tree, where, "job.error.mapping")
        if not isinstance(process.get("type"), str):
            raise _at(tree, where, "job.error.missing", path=f"config.process[{index}].type")
        if process["type"] not in table["not_training"]:
            _check_process(tree, process, index)


def _check_lookalikes(data: Mapping[str, Any], text: str) -> None:
    """Other documents that get pasted by mistake."""
    nodes = data.get("nodes")
    graph = isinstance(nodes, list) and "links" in data
    prompt = bool(data) and all(isinstance(node, dict) and "class_type" in node for node in data.values())
    if graph or prompt:
        raise wrong("job.error.is_workflow")
    if isinstance(data.get("type"), str) and ("train" in data or "model" in data):
        raise wrong("job.error.is_process")
    if "process" in data and "name" in data:
        raise wrong("job.error.is_config")
    if _is_log(text):
        raise wrong("job.error.is_log")


def _check_name(tree: Tree, name: Any) -> None:
    """The name replaces every ``[name]`` inside the job's JSON, so it must be text and must not break JSON."""
    if not isinstance(name, str):
        raise _at(tree, ("config", "name"), "job.error.name", value=_shown(name))
    if "[name]" in tree.text:
        try:
            json.loads(json.dumps(tree.data).replace("[name]", name))
        except ValueError:
            raise _at(tree, ("config", "name"), "job.error.name_breaks", value=_shown(name)) from None


def _check_process(tree: Tree, process: Mapping[str, Any], index: int) -> None:
    where: tuple[str | int, ...] = ("config", "process", index)
    table = configs.load("job_keys")
    for section in table["mappings"]:
        if not isinstance(process.get(section), (dict, type(None))):
            raise _at(tree, (*where, section), "job.error.mapping")
    for path in (("datasets",), ("sample", "samples"), ("first_sample", "samples")):
        entries: Any = process
        for step in path:
            entries = entries.get(step) if isinstance(entries, dict) else None
        if entries is None:
            continue
        if not isinstance(entries, list):
            raise _at(tree, (*where, *path), "job.error.list")
        for at, entry in enumerate(entries):
            if not isinstance(entry, dict):
                raise _at(tree, (*where, *path, at), "job.error.mapping")
    for pattern, key in table["keys"].items():
        for steps, value in _matches(process, pattern):
            _check_value(tree, (*where, *steps), value, key)
    for other, name in table["other_spellings"].items():
        for steps, value in _matches(process, other):
            _check_value(tree, (*where, *steps), value, {"on_null": "absent", **table["keys"][name]})


def _matches(process: Mapping[str, Any], pattern: str) -> list[tuple[tuple[str | int, ...], Any]]:
    """The written values of a key of the table, every entry of a list by itself."""
    found: list[tuple[tuple[str | int, ...], Any]] = [((), process)]
    for part in pattern.split("."):
        name = part.removesuffix("[]")
        found = [((*s, name), v[name]) for s, v in found if isinstance(v, dict) and name in v]
        if part.endswith("[]"):
            found = [((*s, at), item) for s, v in found if isinstance(v, list) for at, item in enumerate(v)]
    return found


_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "number": (int, float),
    "float": (int, float, str),
    "str": (str,),
    "map": (dict,),
    "list": (list,),
    "size": (int, list),
}


def _check_value(tree: Tree, where: tuple[str | int, ...], value: Any, key: Mapping[str, Any]) -> None:
    kind = key["type"]
    if kind == "bool" or is_placeholder(value) or (value is None and ("on_null" in key or kind == "map")):
        return
    sizes = value if kind == "size" and isinstance(value, list) else []
    right = isinstance(value, _TYPES[kind]) and all(isinstance(size, int) or is_placeholder(size) for size in sizes)
    if kind == "float" and isinstance(value, str):
        try:
            float(value)
        except ValueError:
            right = False
    if not right:
        raise _at(tree, where, f"job.error.type_{'number' if kind == 'float' else kind}", value=_shown(value))


def _at(tree: Tree, where: tuple[str | int, ...], key: str, path: str | None = None, **values: Any) -> JobError:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where)
    return wrong(key, line=tree.line_at(where), path=path or steps.removeprefix("."), **values)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."
