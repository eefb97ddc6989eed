"""``diagnose``: say why a run failed and hand back a corrected job."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..contracts import Known, say
from ..diagnosis import find_job
from ..job import read_job_file
from ..recovery import Recovery, recover
from ..report.report import as_json, report
from ..report.wording import words
from .answers import InputError, print_json


def run(options: argparse.Namespace) -> int:
    """Answer; 0 whatever the diagnosis is."""
    lang = options.lang
    path = _job_beside(options)
    job = read_job_file(path) if path else None
    known = Known(options.exit_code, options.os, options.gpu_gib, options.host_ram_gib)
    ours = Path(options.run) if options.run and Path(options.run, "events.jsonl").is_file() else None
    if ours and known.exit_code is None:
        known = replace(known, exit_code=_exit_code(ours))
    comments = None if options.no_comments else lang
    with _source(options) as log:
        wanted = not options.json or bool(options.out)
        found = recover(log, job, known, options.strength, options.lock, comments, wanted)
    if ours:
        found = _with_events(found, ours)
    written = _write(found, options)
    if options.json:
        print_json(as_json(found, lang) | {"written": written})
        return 0
    print(report(found, lang), end="")
    if options.out:
        key = "report.written" if written else "report.not_written"
        print("\n" + words(say(key, path=options.out), lang))
    elif found.correction.job and found.correction.changes:
        print("\n" + words(say("report.corrected"), lang) + ":\n\n" + found.correction.job.text, end="")
    return 0


@contextmanager
def _source(options: argparse.Namespace) -> Iterator[Path]:
    """The log's path; standard input is set down in a temporary file, however long it is."""
    if (options.log is None) == (options.run is None):
        raise InputError(say("cli.error.log_or_run"))
    if options.log != "-":
        yield Path(options.log or options.run)
        return
    import shutil  # these two take a tenth of the time that an answer takes
    import tempfile

    with tempfile.TemporaryDirectory(prefix="headroom-") as folder:
        path = Path(folder, "log")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield path


def _job_beside(options: argparse.Namespace) -> Path | None:
    """The job given, or the one that lies beside the log."""
    if options.job:
        return Path(options.job)
    return find_job(Path(options.run)) if options.run else None


def _exit_code(folder: Path) -> int | None:
    """How the process of a run of ours ended; ``None`` while it runs."""
    from ..run import records

    code = (records.read(folder / "result.json") or {}).get("exit_code")
    return code if isinstance(code, int) else None


def _with_events(found: Recovery, folder: Path) -> Recovery:
    from ..diagnosis.probed import with_events
    from ..run.events import read_events

    return replace(found, diagnosis=with_events(found.diagnosis, read_events(folder / "events.jsonl")))


def _write(found: Recovery, options: argparse.Namespace) -> str | None:
    corrected = found.correction.job
    if not options.out or corrected is None or not found.correction.changes:
        return None
    Path(options.out).write_text(corrected.text, encoding="utf-8", newline="")
    return str(options.out)
