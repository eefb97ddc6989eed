"""The mark of something that goes on: a lock of the system on a file, free when the program that holds it ends."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import processes

_TRIES, _TRY_SECONDS = 10, 0.02


class RunInUse(Exception):
    """Another holds it: a run that still runs cannot be removed, nor gone on from."""


@dataclass
class Hold:
    """A file that is held, until released or until this program ends. Raises RunInUse, and OSError."""

    file: Path
    _handle: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        handle = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o644)
        for _ in range(_TRIES):  # somebody may just be asking whether it is held
            if processes.lock(handle):
                self._handle = handle
                return
            time.sleep(_TRY_SECONDS)
        os.close(handle)
        raise RunInUse(str(self.file.parent))

    def note(self, text: Mapping[str, Any]) -> None:
        """Write what others may read of it into the file, in place of what stood there. Raises OSError."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, json.dumps(text).encode())

    def release(self) -> None:
        """It has ended; again does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            processes.unlock(handle)
            os.close(handle)


def held(file: Path) -> bool:
    """Whether somebody holds a file now."""
    try:
        handle = os.open(file, os.O_RDWR)
    except OSError:
        return False
    try:
        if processes.lock(handle):
            processes.unlock(handle)
            return False
        return True
    finally:
        os.close(handle)
