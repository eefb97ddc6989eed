"""Holds AI Toolkit's process in the phase that the file of ``HEADROOM_TEST_HOLD`` names, for tests that need it there.

Python imports this by itself at its start; the probe tells each phase with one ``os.write``.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_write = os.write


def _wanted() -> str:
    file = Path(os.environ.get("HEADROOM_TEST_HOLD", ""))
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def _held_write(descriptor: int, data: bytes) -> int:
    written = _write(descriptor, data)
    phase = _wanted()
    if phase and f'"phase": "{phase}", "state": "begin"'.encode() in data:
        time.sleep(600)
    return written


os.write = _held_write
if _wanted() == "startup":
    time.sleep(600)
