"""A digest of a job and of the files that it names, so that the same work is known again.

A file counts by its name, its size and its first and last bytes: what is edited or exchanged is noticed, what is only
copied or touched is not, and a model of many gigabytes is no wait.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..contracts import Job

_PIECE = 64 * 1024
_PATH_KEYS = ("path", "paths", "folder", "dir")
_OUTPUT_KEYS = ("training_folder", "log_dir")  # what a run writes is not what it is made of


def fingerprint(job: Job, base: Path | None = None, **also: Any) -> str:
    """The digest of the job's values (not of comments or order), of the files it names, and of ``also``.

    ``base`` is the folder that relative paths start from: AI Toolkit's own. AI Toolkit's caches in a dataset's folder
    (``_latent_cache``, ``.aitk_size.json``) do not count.
    """
    digest = hashlib.sha256()
    told = {"job": _without_output(job.data), "also": also}
    digest.update(json.dumps(told, sort_keys=True, ensure_ascii=True, default=str).encode())
    for path in _named(job.data):
        place = Path(base or Path.cwd(), path)
        for file, name in _files(place):
            digest.update(json.dumps([path, name]).encode())
            digest.update(_content(file))
    return digest.hexdigest()


def _without_output(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_output(item) for key, item in value.items() if key not in _OUTPUT_KEYS}
    if isinstance(value, (list, tuple)):
        return [_without_output(item) for item in value]
    return value


def _named(value: Any, key: str = "") -> Iterator[str]:
    """The paths in a job, in its order: text under a key that is named for a path."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name not in _OUTPUT_KEYS:
                yield from _named(item, str(name))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _named(item, key)
    elif isinstance(value, str) and value.strip(" ./\\") and key.endswith(_PATH_KEYS):
        yield value


def _files(place: Path) -> Iterator[tuple[Path, str]]:
    if place.is_file():
        yield place, ""
    elif place.is_dir():
        for folder, folders, names in os.walk(place):
            folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
            for name in sorted(names):
                file = Path(folder, name)
                if not name.startswith(".") and file.is_file():  # a pipe would be waited for
                    yield file, file.relative_to(place).as_posix()


def _content(file: Path) -> bytes:
    digest = hashlib.sha256()
    try:
        with open(file, "rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            digest.update(str(size).encode() + b" ")
            opened.seek(0)
            digest.update(opened.read(_PIECE))
            if size > _PIECE:
                opened.seek(max(_PIECE, size - _PIECE))
                digest.update(opened.read(_PIECE))
    except OSError:
        digest.update(b"unreadable")
    return digest.digest()
