"""Started by path with AI Toolkit's Python; see ``launch`` for the options."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
# What our modules are called in this process: a package of our own, so that no name of ours hides one of AI Toolkit's.
PACKAGE = "headroom_probe"


def load() -> None:
    """Make the folder this file lies in a package, and take the folder itself off the path."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != FOLDER]
    spec = importlib.util.spec_from_file_location(
        PACKAGE, FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    load()
    sys.exit(importlib.import_module(f"{PACKAGE}.launch").main(sys.argv[1:]))
