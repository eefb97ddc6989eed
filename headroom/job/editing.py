"""Edit a job's text in place: only the lines of a change differ, and the result is read again to prove it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..contracts import Change, Job, Language
from ..report.wording import words
from .errors import JobError, wrong
from .paths import ANY, Steps, follow, parse_path
from .placing import Placing
from .reading import read_tree
from .tree import Tree


def edit(job: Job, changes: Sequence[Change], comments: Language | None = None) -> Job:
    """The job with the changes made in its text, each with its reason as a comment in a YAML job if asked for.

    Everything else stays: unknown keys, order, comments, quotes, flow style, anchors. A value reached through an alias
    or a merge key is written out at its own place; where a changed value is itself anchored, those who share it keep
    theirs. Raises JobError for a path that cannot be set, and rather than return a job in which anything but the
    changes reads differently.
    """
    tree = read_tree(job.text, job.syntax)
    wanted = _plain(tree.data)
    places: list[tuple[Steps, Any, str | None]] = []
    for change in changes:
        value = _plain(change.new)
        note = _one_line(words(change.reason, comments)) if comments and job.syntax == "yaml" else None
        for steps in _expand(tree, change.path):
            _set(wanted, steps, value, change.path)
            places.append((steps, value, note))
    for together in (True, False):
        text = _apply(tree, places, together)
        data: Any = _data_of(text, job.syntax) if text is not None else None
        if text is not None and first_difference(data, wanted) is None:
            return Job(text, job.syntax, job.origin, data)
    raise wrong("job.error.edit", path=", ".join(change.path for change in changes))


def _apply(tree: Tree, places: Sequence[tuple[Steps, Any, str | None]], together: bool) -> str | None:
    """The text with all changes made, as many at once as do not touch each other; ``None`` where it cannot be read."""
    syntax: Literal["yaml", "json"] = "json" if tree.syntax == "json" else "yaml"
    placing = Placing(tree)
    try:
        for steps, value, note in places:
            if not (together and placing.put(steps, value, note)):
                tree = read_tree(placing.text(), syntax)
                placing = Placing(tree)
                if not placing.put(steps, value, note):
                    return None
        return placing.text()
    except JobError:
        if together:
            return None
        raise


def _data_of(text: str, syntax: Literal["yaml", "json"]) -> Any:
    try:
        return read_tree(text, syntax).data
    except JobError:
        return None


def _expand(tree: Tree, path: str) -> list[Steps]:
    """The document's steps that a path means: ``[*]`` is every entry that is there."""
    process, steps = parse_path(path)
    if process != ANY and not isinstance(process, int):
        raise wrong("job.error.path", path=path)
    found: list[Steps] = [()]
    for step in ("config", "process", process, *steps):
        if step == ANY:
            lists = [(prefix, follow(tree.data, prefix)) for prefix in found]
            if not all(isinstance(entries, list) for _, entries in lists):
                raise wrong("job.error.no_entry", path=path, line=tree.line_at(found[0]))
            found = [(*prefix, at) for prefix, entries in lists for at in range(len(entries))]
        else:
            found = [(*prefix, step) for prefix in found]
    if not found or not steps:
        raise wrong("job.error.no_entry", path=path)
    return found


def _set(data: Any, steps: Steps, value: Any, path: str) -> None:
    """Sets a value in parsed data, making the mappings on the way that are absent or null."""
    for at, step in enumerate(steps):
        last = at == len(steps) - 1
        if isinstance(data, dict) and isinstance(step, str):
            if last:
                data[step] = _plain(value)
            elif data.get(step) is None:
                if isinstance(steps[at + 1], int):
                    raise wrong("job.error.no_entry", path=path)
                data[step] = {}
        elif not (isinstance(data, list) and isinstance(step, int) and step < len(data)):
            raise wrong("job.error.no_entry", path=path)
        elif last:
            data[step] = _plain(value)
        elif data[step] is None:
            data[step] = {}
        data = data[step]


def _plain(value: Any) -> Any:
    """A copy of the value as JSON would hold it."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _one_line(text: str) -> str:
    """A sentence as a comment: on one line, and without a placeholder, which AI Toolkit would fill in comments too."""
    return "".join(sign if sign.isprintable() else " " for sign in " ".join(text.split())).replace("${", "$ {")


def first_difference(found: Any, wanted: Any) -> Steps | None:
    """The steps to the first place where two parsed jobs differ, in value or in type; ``None`` where they do not."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in [*wanted, *(key for key in found if key not in wanted)]:
            if key not in found or key not in wanted:
                return (key,)
            below = first_difference(found[key], wanted[key])
            if below is not None:
                return (key, *below)
        return None
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
            below = first_difference(one, other)
            if below is not None:
                return (at, *below)
        return None
    same = type(found) is type(wanted) and (found == wanted or repr(found) == repr(wanted) == "nan")
    return None if same else ()
