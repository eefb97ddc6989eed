"""Every key of every lever, edited in every labelled job in every dress: only the changed lines differ, all else reads as before.

With AI Toolkit installed its own example jobs go through the same.
"""

from __future__ import annotations

import copy
import difflib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headroom import configs
from headroom.contracts import Change, Job, say
from headroom.job import JobError, edit, read_job
from headroom.job.editing import first_difference

CASES = Path(__file__).parent / "cases"
REASON = say("lever.batch_size.name")
NEW: dict[str, Any] = {"bool": True, "int": 7, "number": 0.25, "float": 0.25, "str": "uint4", "size": [256]}


def block(data: Any) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def flow(data: Any) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10_000)


def windows(data: Any) -> str:
    return block(data).replace("\n", "\r\n")


def commented(data: Any) -> str:
    """A comment in Chinese, with a tab, after every line that can take one."""
    lines = block(data).split("\n")
    return "\n".join(
        f"{line}  #\t第{n}行" if re.search(r"[\w\]}'\"]$|:$", line) else line for n, line in enumerate(lines)
    )


def anchored(data: Any) -> str:
    """The datasets' common part behind an anchor and merged into each entry."""
    data = copy.deepcopy(data)
    entries = data["config"]["process"][0].get("datasets")
    if not entries:
        return block(data)
    data["config"]["process"][0]["datasets"] = ["@@"]
    shared = "shared: &shared " + flow(entries[0]).strip() + "\n"
    return shared + block(data).replace("'@@'", "<<: *shared", 1)


def as_json(data: Any) -> str:
    return json.dumps(data, indent=4, ensure_ascii=False)


DRESSES = (block, flow, windows, commented, anchored, as_json)


def labelled_jobs() -> list[dict[str, Any]]:
    """The different jobs of the labelled cases, and those that real runs printed at the top of their logs."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("public", "real_runs"):
        for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            given = json.loads(line)["input"]
            job = given.get("job")
            printed = re.search(r"Running 1 job\r?\n(\{\n.*?\n\})\r?\n", given["log"], re.DOTALL)
            if job is None and printed:
                job = {"job": "extension", "config": {"name": "run", "process": [json.loads(printed[1])]}}
            if job is not None:
                found[json.dumps(job, sort_keys=True)] = job
    return list(found.values())


def lever_paths(job: Job) -> Iterator[tuple[str, Any]]:
    """Every key that a lever may set, with a value of the type it has: those of list entries in the first entry there is."""
    keys = configs.load("job_keys")["keys"]
    process = job.data["config"]["process"][0]
    for path in dict.fromkeys(path for entry in configs.load("levers")["levers"].values() for path in entry["keys"]):
        parent, mark, _ = path.partition("[]")
        if mark:
            entries = process
            for step in parent.split("."):
                entries = entries.get(step) if isinstance(entries, dict) else None
            if not isinstance(entries, list) or not entries:
                continue
        yield path.replace("[]", "[0]"), NEW[keys.get(path, {}).get("type", "str")]


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    gone, added = [], []
    for line in difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)):
        if line.startswith("- "):
            gone.append(line[2:])
        elif line.startswith("+ "):
            added.append(line[2:])
    return gone, added


def check(job: Job) -> int:
    """Edit each lever's key by itself; the number of edits."""
    count = 0
    for path, new in lever_paths(job):
        after = edit(job, [Change("batch_size", path, None, new, REASON, REASON, REASON)], None)
        wanted = copy.deepcopy(dict(job.data))
        node: Any = wanted["config"]["process"][0]
        steps = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", path)]
        for at, step in enumerate(steps[:-1]):
            if isinstance(node, dict) and node.get(step) is None:
                assert not isinstance(steps[at + 1], int)
                node[step] = {}
            node = node[step]
        node[steps[-1]] = new
        assert first_difference(after.data, wanted) is None, path
        assert first_difference(read_job(after.text, syntax=job.syntax).data, wanted) is None, path
        gone, added = changed_lines(job.text, after.text)
        assert len(gone) <= _lines_of(job.text, steps[-1]), (path, gone, added)
        assert len(added) <= len(gone) + len(steps), (path, gone, added)
        assert ("\r\n" in job.text) == ("\r\n" in after.text)
        count += 1
    return count


def _lines_of(text: str, key: Any) -> int:
    """How many lines the value of a key may fill: a block list or block text has a line for each entry."""
    blocks = re.findall(rf"^[ -]*[\"']?{key}[\"']?:[^\n]*\n((?:[ ]*(?:- |\s*\d|\s*\]).*\n)*)", text, re.MULTILINE)
    return 2 + max((block.count("\n") for block in blocks), default=0)


@pytest.mark.parametrize("dress", DRESSES, ids=lambda dress: dress.__name__)
def test_every_lever_on_every_labelled_job(
    dress, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = labelled_jobs()
    if not request.config.getoption("--soak", default=False):
        jobs = jobs[DRESSES.index(dress) :: len(DRESSES)]  # each job in one dress; --soak: in all
    edits = sum(check(read_job(dress(job))) for job in jobs)
    with capsys.disabled():
        print(f"\n{dress.__name__}: {edits} edits of {len(jobs)} jobs, only their own lines differ")
    assert edits > 5 * len(jobs)


def test_every_lever_on_every_example_of_ai_toolkit(capsys: pytest.CaptureFixture[str]) -> None:
    toolkit = os.environ.get("HEADROOM_AI_TOOLKIT")
    if not toolkit:
        pytest.skip("no AI Toolkit: set HEADROOM_AI_TOOLKIT and HEADROOM_AI_TOOLKIT_PYTHON")
    files = sorted(
        path for path in Path(toolkit, "config", "examples").rglob("*") if path.suffix in (".yaml", ".yml", ".json")
    )
    edits, broken = 0, []
    for path in files:
        text = path.read_text(encoding="utf-8")
        try:
            edits += check(read_job(text, path.name))
        except JobError:
            with pytest.raises(yaml.YAMLError):  # its own loader cannot read this one either
                yaml.safe_load(text)
            broken.append(path.name)
    with capsys.disabled():
        print(f"\n{edits} edits of {len(files)} example jobs, only their own lines differ; not YAML: {broken}")
    assert files and edits > 5 * len(files)
