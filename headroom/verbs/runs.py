"""``runs``: list, show and remove run folders."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import places
from ..contracts import Sentence, say
from ..report.wording import words
from ..run.ai_toolkit import settle
from ..run.holding import RunInUse
from ..run.store import Run, Store
from .answers import FINISHED, InputError, peaks_as_json, print_json


def run(options: argparse.Namespace) -> int:
    """Answer; 0 whatever there is."""
    store = Store(settings=places.settings_file())
    settle(store)  # what went on without anybody may have ended
    if options.doing in (None, "list"):
        return _list(store, options)
    try:
        found = store.show(str(Path(options.run)))
    except KeyError:
        raise InputError(say("runs.none_such", run=options.run, runs=str(store.folder))) from None
    return _show(found, options) if options.doing == "show" else _remove(store, found, options)


def _list(store: Store, options: argparse.Namespace) -> int:
    found = store.list()
    if options.json:
        print_json({"folder": str(store.folder), "runs": [_about(each) for each in found]})
        return FINISHED
    print(words(say("runs.folder" if found else "runs.empty", folder=str(store.folder)), options.lang))
    for each in found:
        print(words(_line(each), options.lang))
    return FINISHED


def _show(found: Run, options: argparse.Namespace) -> int:
    if options.json:
        print_json(_about(found) | {"job": str(found.job), "log": str(found.log), "files": found.index()})
        return FINISHED
    for sentence in _told(found):
        print(words(sentence, options.lang))
    return FINISHED


def _remove(store: Store, found: Run, options: argparse.Namespace) -> int:
    """Remove a run's records; what AI Toolkit wrote elsewhere, as a user's own job has it, is never touched."""
    try:
        store.remove(found, options.checkpoints)
    except RunInUse:
        raise InputError(say("runs.goes_on", run=str(found.folder))) from None
    output = str(found.output) if found.output.exists() else None
    if options.json:
        print_json({"removed": str(found.folder), "output": output})
        return FINISHED
    print(words(say("runs.removed", run=str(found.folder)), options.lang))
    if output and any(found.output.iterdir()):
        print(words(say("runs.output_stays", output=output), options.lang))
    return FINISHED


def _about(found: Run) -> dict[str, Any]:
    """A run as ``runs --json`` prints it; ``null`` is not known (yet)."""
    result = found.result() or {}
    return {
        "run": str(found.folder),
        "name": found.name,
        "state": found.state,
        "engine": found.engine,
        "until": found.until,
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.begun)),
        "steps": result.get("steps"),
        "peaks": peaks_as_json(result.get("peaks") or {}),
        "checkpoint": result.get("checkpoint"),
    }


def _line(found: Run) -> Sentence:
    steps = (found.result() or {}).get("steps") or {}
    unknown = say("doctor.unknown")
    done, total = (unknown if steps.get(name) is None else steps[name] for name in ("done", "total"))
    begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.begun))
    short = f"{found.folder.parent.name}/{found.folder.name}"
    return say("runs.line", run=short, begun=begun, state=say(f"runs.state.{found.state}"), done=done, total=total)


def _told(found: Run) -> Iterator[Sentence]:
    yield _line(found)
    yield say("train.run", run=str(found.folder))
    if checkpoint := (found.result() or {}).get("checkpoint"):
        yield say("train.result", path=checkpoint)
    for entry in found.index():
        yield say(f"runs.file.{entry['kind']}", step=entry["step"], path=entry["path"])
    if found.state in ("failed", "unfinished"):
        yield say("runs.diagnose", run=str(found.folder))
