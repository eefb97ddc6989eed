"""``doctor``: say what is found here."""

from __future__ import annotations

import argparse

from .. import places
from ..doctor import as_json, as_text, examine
from .answers import print_json


def run(options: argparse.Namespace) -> int:
    """Answer; 0 whatever is found."""
    found = examine(places.settings_file())
    if options.json:
        print_json(as_json(found, options.lang))
    else:
        print(as_text(found, options.lang), end="")
    return 0
