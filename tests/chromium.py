"""The browser that the tests drive."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def program() -> str | None:
    """HEADROOM_BROWSER, else the first browser on the path; ``None`` where there is none."""
    return os.environ.get("HEADROOM_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
