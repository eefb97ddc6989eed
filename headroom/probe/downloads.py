"""Files that huggingface_hub downloads, told as they grow, so that a download is no stall."""

from __future__ import annotations

import glob
import inspect
import re
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from .channel import Channel

# The one function through which every file of a repository comes, by HTTP or Xet (file_download.py), and what of its
# parameters is read.
_FUNCTION = "_download_to_tmp_and_move"
_NAMES = ("incomplete_path", "url_to_download", "expected_size")
_LEAST_BYTES = 2**20  # configuration files come by the dozen


class Downloads:
    """Writes ``download`` events: at the begin, while the file on disk grows, and at the end."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._growing: dict[Path, tuple[str, int | None, int]] = {}

    def install(self, module: ModuleType) -> None:
        """Wrap the download function of ``huggingface_hub.file_download``."""
        original = getattr(module, _FUNCTION, None)
        signature = inspect.signature(original) if callable(original) else None
        if original is None or signature is None or not set(_NAMES) <= set(signature.parameters):
            self._channel.note("this huggingface_hub downloads in another way: downloads are not seen")
            return

        def download(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            path, url, total = (given[name] for name in _NAMES)
            return self._follow(Path(path), _name(url), total, lambda: original(*args, **kwargs))

        setattr(module, _FUNCTION, download)

    def look(self) -> None:
        """Tell of the files that have grown."""
        with self._lock:
            growing = list(self._growing.items())
        for path, (name, total, before) in growing:
            now = _bytes(path)
            if now > before:
                with self._lock:
                    if path not in self._growing:
                        continue
                    self._growing[path] = name, total, now
                    self._channel.write("download", name=name, bytes=now, total=total)

    def _follow(self, path: Path, name: str, total: int | None, call: Any) -> Any:
        if total is not None and total < _LEAST_BYTES:
            return call()
        there = _bytes(path)
        with self._lock:
            self._growing[path] = name, total, there
            self._channel.write("download", name=name, bytes=there, total=total)
        done = False
        try:
            result = call()
            done = True
            return result
        finally:
            with self._lock:
                _, _, last = self._growing.pop(path)
                if done:
                    self._channel.write("download", name=name, bytes=last if total is None else total, total=total)


def _name(url: str) -> str:
    """``owner/repository/file`` of an address on a hub."""
    path = re.sub(r"^\w+://[^/]+/", "", url.split("?", maxsplit=1)[0])
    return re.sub(r"/resolve/[^/]+/", "/", path)


def _bytes(path: Path) -> int:
    """What of a file has come. It lies at the path itself, or beside it with a name of this download's own."""
    sizes = [0]
    for file in path.parent.glob(glob.escape(path.stem) + "*.incomplete"):
        try:
            told = file.stat()
        except OSError:
            continue  # moved in place just now
        # Written out of order (Xet), the file is long before it is full.
        sizes.append(min(told.st_size, getattr(told, "st_blocks", told.st_size) * 512))
    return max(sizes)
