"""``setup``: bring AI Toolkit here, into the tools place."""

from __future__ import annotations

import argparse
import sys

from .. import places
from ..contracts import say
from ..report.wording import words
from ..run.locate import FOLDER, python_inside
from ..setup import Progress, SetupError, SetupStopped, set_up
from .answers import CANCELLED, FINISHED, NOT_FINISHED, print_json

_WIDTH = 100


def run(options: argparse.Namespace) -> int:
    """Set AI Toolkit up, or find that it is; progress goes to the standard error. 1 where it could not be done."""
    lang = options.lang
    told = _Told(lang)
    try:
        toolkit = set_up(places.tools(), options.source, options.commit, told, lambda: False)
    except SetupStopped as error:
        code, sentence = CANCELLED, error.sentence
    except KeyboardInterrupt:
        code, sentence = CANCELLED, say("setup.stopped")
    except SetupError as error:
        code, sentence = NOT_FINISHED, error.sentence
    else:
        told.end()
        python = python_inside(toolkit.folder)
        if options.json:
            about = {"folder": str(toolkit.folder), "version": toolkit.version, "commit": toolkit.commit}
            print_json(about | {"python": str(python)})
        else:
            unknown = say("doctor.unknown")
            version, commit = toolkit.version or unknown, toolkit.commit or unknown
            print(words(say("doctor.ai_toolkit", version=version, commit=commit, folder=str(toolkit.folder)), lang))
        if other := places.setting(FOLDER, places.settings_file()):
            print(words(say("setup.another_set", setting=FOLDER, folder=other), lang), file=sys.stderr)
        return FINISHED
    told.end()
    print(f"headroom setup: {words(sentence, lang)}", file=sys.stderr)
    return code


class _Told:
    """Progress on the standard error: a line a step, and on a terminal what goes on now, repainted."""

    def __init__(self, lang: str) -> None:
        self._lang, self._step = lang, ""
        self._live = sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        if progress.step != self._step:
            self.end()
            self._step = progress.step
            print(words(say(f"setup.step.{progress.step}"), self._lang) + " …", file=sys.stderr, flush=True)
        if self._live:
            share = f"{progress.done / progress.total:.0%}" if progress.done and progress.total else progress.detail
            print(f"\r\x1b[K  {share[:_WIDTH]}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line that is repainted."""
        if self._live and self._step:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
