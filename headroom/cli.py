"""The command line: what can be asked, in which words it answers to wrong calls, and the exit codes.

Each verb is a module of ``verbs``, a thin face on the same calls that the nodes make.
"""

from __future__ import annotations

import argparse
import locale
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from . import __version__
from .contracts import Language, Sentence, say
from .report.wording import LANGUAGES, words
from .verbs.answers import CANCELLED, WRONG_INPUT


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a call in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_INPUT, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _language(asked: Language | None) -> Language:
    if asked:
        return asked
    set_to = os.environ.get("LC_ALL") or os.environ.get("LANG") or (locale.getlocale()[0] or "")
    return "zh" if set_to.lower().startswith(("zh", "chinese")) else "en"


def _gib(text: str) -> float:
    size = float(text)
    if not 0 < size < float("inf"):
        raise ValueError
    return size


_gib.__name__ = "size in GiB"  # argparse says "invalid size in GiB value"


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the verb that is called has its options, since each costs time."""
    parser = _Parser(prog="headroom", description="Train with AI Toolkit inside a memory budget; read what failed.")
    parser.add_argument("--version", action="version", version=f"headroom {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, (purpose, add_options) in _VERBS.items():
        verb = verbs.add_parser(name, help=purpose)
        if name in arguments:
            add_options(verb)
            _answering(verb)
    return parser


def _diagnose(verb: argparse.ArgumentParser) -> None:
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


def _train(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--job", metavar="FILE", required=True, help="the job, YAML or JSON, as AI Toolkit reads it")
    verb.add_argument("--vram", type=_gib, metavar="GIB", help="what it may take of the card (default: what is free)")
    verb.add_argument("--host-ram", type=_gib, metavar="GIB", help="what it may take of the machine's RAM")
    verb.add_argument(
        "--until", choices=("load", "cache", "baseline_sample", "train"), help="go no further than the end of this"
    )
    verb.add_argument(
        "--resume",
        choices=("resume", "fresh", "fail"),
        default="resume",
        help="where there are checkpoints of the name: go on from them, take another folder, or do not run",
    )
    verb.add_argument("--force", action="store_true", help="run again what has finished before")
    verb.add_argument(
        "--largest-bucket",
        choices=("stop", "continue", "off"),
        default="stop",
        help="try the largest bucket before the first step, and if it does not fit: stop, or tell and go on",
    )
    verb.add_argument("--engine", choices=("ai-toolkit",), default="ai-toolkit", help="what carries the job out")


def _runs(verb: argparse.ArgumentParser) -> None:
    doings = verb.add_subparsers(dest="doing", metavar="list|show|remove")
    doing = doings.add_parser("list", help="all runs, oldest first")
    _answering(doing, argparse.SUPPRESS)
    doing = doings.add_parser("show", help="one run: how it ended, its checkpoints and previews")
    doing.add_argument("run", metavar="RUN", help="its folder, or as `runs list` names it")
    _answering(doing, argparse.SUPPRESS)
    doing = doings.add_parser("remove", help="remove a run's records; what it trained stays")
    doing.add_argument("run", metavar="RUN", help="its folder, or as `runs list` names it")
    doing.add_argument("--checkpoints", action="store_true", help="also what lies in the run store's output folder")
    _answering(doing, argparse.SUPPRESS)


def _setup(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--source", metavar="URL|PATH", help="a git repository, an archive or a folder of AI Toolkit")
    verb.add_argument("--commit", metavar="C", help="a commit, branch or tag of it (default: the one that was tested)")


def _answering(verb: argparse.ArgumentParser, default: str | None = None) -> None:
    """How every verb answers. Of a verb in a verb, what was not given must not hide what the outer one was given."""
    unset: dict[str, Any] = {"default": default} if default else {}
    verb.add_argument("--json", action="store_true", help="print one JSON object and nothing else", **unset)
    verb.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the system's)", **unset)


_VERBS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "diagnose": ("say why a run failed and hand back a corrected job", _diagnose),
    "train": ("carry a job out with AI Toolkit here, inside a memory budget", _train),
    "runs": ("list, show and remove run folders", _runs),
    "doctor": ("say what is found here: AI Toolkit, GPUs and their users, RAM, disks", lambda verb: None),
    "setup": ("bring AI Toolkit and a Python for it here", _setup),
}


def main(arguments: Sequence[str]) -> int:
    """Run one verb and return the exit code: its own, 2 where an input is wrong (one line on stderr), 130 cancelled."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    options = _parser(arguments).parse_args(arguments)
    options.lang = _language(options.lang)
    try:
        return import_module(f".verbs.{options.verb}", __package__).run(options)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        given = (getattr(options, name, None) for name in ("log", "run", "job"))
        path = error.filename or next((each for each in given if each), "-")
        sentence = say("cli.error.file", path=path, why=error.strerror or error)
    except KeyboardInterrupt:
        return CANCELLED
    except Exception as error:
        if not isinstance(said := getattr(error, "sentence", None), Sentence):
            raise
        sentence = said
    print(f"headroom {options.verb}: {words(sentence, options.lang)}", file=sys.stderr)
    return WRONG_INPUT
