"""The command line: a thin face on the same calls that the nodes make."""

from __future__ import annotations

import argparse
import json
import locale
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from . import __version__
from .contracts import Known, Language, Sentence, say
from .diagnosis import find_job
from .job import JobError, read_job_file
from .recovery import Recovery, recover
from .report.report import as_json, report
from .report.wording import LANGUAGES, words

WRONG_INPUT = 2
CANCELLED = 130


class InputError(Exception):
    """An input that is wrong: which one, why, and what to do, in one line."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(sentence.key)
        self.sentence = sentence


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a call in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_INPUT, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _language(asked: Language | None) -> Language:
    if asked:
        return asked
    set_to = os.environ.get("LC_ALL") or os.environ.get("LANG") or (locale.getlocale()[0] or "")
    return "zh" if set_to.lower().startswith(("zh", "chinese")) else "en"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="headroom", description="Read, diagnose and correct AI Toolkit jobs.")
    parser.add_argument("--version", action="version", version=f"headroom {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    verb = verbs.add_parser("diagnose", help="say why a run failed and hand back a corrected job")
    verb.add_argument("--log", metavar="FILE|-", help="the run's log; - reads standard input")
    verb.add_argument("--run", metavar="DIR", help="a run folder, or a job folder of AI Toolkit's UI with log.txt")
    verb.add_argument("--job", metavar="FILE", help="the job, YAML or JSON; else the one printed in the log")
    verb.add_argument("--exit-code", type=int, metavar="N", help="how the process ended: 137 or -9 for SIGKILL")
    verb.add_argument("--os", choices=("linux", "windows", "wsl", "macos"), help="where it ran")
    verb.add_argument("--gpu-gib", type=float, metavar="X", help="the card's memory in GiB")
    verb.add_argument("--host-ram-gib", type=float, metavar="X", help="the machine's RAM in GiB")
    verb.add_argument("--strength", choices=("next", "safe"), default="next", help="one lever, or the safe set at once")
    verb.add_argument("--lock", action="append", default=[], metavar="PATH", help="a job key to leave alone")
    verb.add_argument("-o", dest="out", metavar="FIXED.yaml", help="write the corrected job here")
    verb.add_argument("--no-comments", action="store_true", help="write no reasons into the YAML")
    verb.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    verb.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the system's)")
    verb.set_defaults(run_verb=_diagnose)

    verb = verbs.add_parser("doctor", help="say what is found here: AI Toolkit, GPUs and their users, RAM, disks")
    verb.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    verb.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the system's)")
    verb.set_defaults(run_verb=_doctor)
    return parser


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
    """The job given, or the one AI Toolkit's UI keeps beside its log."""
    if options.job:
        return Path(options.job)
    return find_job(Path(options.run)) if options.run else None


def _diagnose(options: argparse.Namespace) -> int:
    lang = _language(options.lang)
    path = _job_beside(options)
    job = read_job_file(path) if path else None
    known = Known(options.exit_code, options.os, options.gpu_gib, options.host_ram_gib)
    comments = None if options.no_comments else lang
    with _source(options) as log:
        wanted = not options.json or bool(options.out)
        found = recover(log, job, known, options.strength, options.lock, comments, wanted)
    written = _write(found, options)
    if options.json:
        answer = as_json(found, lang) | {"written": written}
        print(json.dumps(answer, ensure_ascii=False, indent=2, default=str))
    else:
        print(report(found, lang), end="")
        if options.out:
            key = "report.written" if written else "report.not_written"
            print("\n" + words(say(key, path=options.out), lang))
        elif found.correction.job and found.correction.changes:
            print("\n" + words(say("report.corrected"), lang) + ":\n\n" + found.correction.job.text, end="")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from . import doctor, places

    lang = _language(options.lang)
    found = doctor.examine(places.settings_file())
    if options.json:
        print(json.dumps(doctor.as_json(found, lang), ensure_ascii=False, indent=2))
    else:
        print(doctor.as_text(found, lang), end="")
    return 0


def _write(found: Recovery, options: argparse.Namespace) -> str | None:
    corrected = found.correction.job
    if not options.out or corrected is None or not found.correction.changes:
        return None
    Path(options.out).write_text(corrected.text, encoding="utf-8", newline="")
    return str(options.out)


def main(arguments: Sequence[str]) -> int:
    """Run one verb and return the exit code: 0 answered, 2 an input is wrong (one line on stderr), 130 cancelled."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    options = _parser().parse_args(arguments)
    try:
        return options.run_verb(options)
    except (JobError, InputError) as error:
        sentence = error.sentence
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        source = getattr(options, "log", None) or getattr(options, "run", None)
        sentence = say("cli.error.file", path=error.filename or source or "-", why=error.strerror or error)
    except KeyboardInterrupt:
        return CANCELLED
    print(f"headroom {options.verb}: {words(sentence, _language(options.lang))}", file=sys.stderr)
    return WRONG_INPUT
