"""Repositories of a Hugging Face Hub: what lies in the cache here, and what the Hub says that they hold."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..places import hugging_face

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf")
_MOST_BYTES = 32 * 2**20  # of an answer


@dataclass(frozen=True)
class HubFile:
    """A file of a repository: its path there, its size, and under which name its content is cached."""

    path: str
    size: int
    blob: str


@dataclass(frozen=True)
class Listing:
    """What the Hub answered: the files, or that it shows none (``hidden``), or nothing in time (``silent``).

    ``gated``: only who has accepted its terms may download.
    """

    answer: Literal["files", "hidden", "silent"]
    files: tuple[HubFile, ...] = ()
    gated: bool = False


def is_repository(name: str) -> bool:
    """Whether text has the shape of a repository's name, ``owner/name``."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def logged_in(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether huggingface_hub finds a token of its own (huggingface_hub/utils/_auth.py)."""
    if environment.get("HF_TOKEN") or environment.get("HUGGING_FACE_HUB_TOKEN"):
        return True
    return Path(environment.get("HF_TOKEN_PATH") or hugging_face(environment) / "token").expanduser().is_file()


def offline(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether nothing is to be asked of the Hub (huggingface_hub/constants.py HF_HUB_OFFLINE)."""
    named = environment.get("HF_HUB_OFFLINE") or environment.get("TRANSFORMERS_OFFLINE") or ""
    return named.upper() in ("1", "ON", "YES", "TRUE")


class Cached:
    """What of a repository lies in the cache: whole files by their paths, and pieces of others."""

    def __init__(self, repository: str, cache: Path) -> None:
        self._folder = cache / ("models--" + repository.replace("/", "--"))

    def has(self, file: HubFile) -> bool:
        """Whether a file is there whole, in any version that was downloaded."""
        if (self._folder / "blobs" / file.blob).is_file():
            return True
        return any((snapshot / file.path).is_file() for snapshot in self._snapshots())

    def piece(self, file: HubFile) -> int:
        """The bytes that an interrupted download left of a file."""
        pieces = self._folder.glob(f"blobs/{file.blob}*.incomplete") if file.blob.isalnum() else ()
        return min(file.size, max((_size(piece) for piece in pieces), default=0))

    def weights(self) -> int:
        """The bytes of all weights that are there, each once."""
        found = {}
        for snapshot in self._snapshots():
            for path in snapshot.rglob("*"):
                if path.suffix in _WEIGHTS:
                    found[os.path.realpath(path)] = _size(path)
        return sum(found.values())

    def _snapshots(self) -> list[Path]:
        try:
            return [path for path in (self._folder / "snapshots").iterdir() if path.is_dir()]
        except OSError:
            return []


def list_files(
    repositories: tuple[str, ...], token: str | None, seconds: float, environment: Mapping[str, str] = os.environ
) -> dict[str, Listing]:
    """Ask the Hub (``HF_ENDPOINT``) for the files of some repositories, for no longer than that time in all.

    The token goes to that host alone.
    """
    endpoint = (environment.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    found: dict[str, Listing] = {}

    def ask(repository: str) -> None:
        found[repository] = _listed(f"{endpoint}/api/models/{repository}?blobs=true", token, seconds)

    # Threads, since no timeout ends the look-up of a name; they are left behind where that hangs.
    threads = [threading.Thread(target=ask, args=(each,), daemon=True) for each in repositories]
    until = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return {each: found.get(each, Listing("silent")) for each in repositories}


def _listed(url: str, token: str | None, seconds: float) -> Listing:
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class SameHost(HTTPRedirectHandler):
        def redirect_request(self, request: Any, *more: Any) -> Any:  # type: ignore[override]
            new = super().redirect_request(request, *more)
            if new and (new.host, new.type) != (request.host, request.type):
                new.remove_header("Authorization")
            return new

    asked = Request(url, headers={"Accept": "application/json", "User-Agent": "headroom"})
    if token:
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with build_opener(SameHost).open(asked, timeout=seconds) as answer:
            data = json.loads(answer.read(_MOST_BYTES))
        return Listing("files", tuple(_file(each) for each in data["siblings"]), bool(data.get("gated")))
    except HTTPError as error:
        return Listing("hidden" if error.code in (401, 403, 404) else "silent")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Listing("silent")


def _file(sibling: Mapping[str, Any]) -> HubFile:
    blob = str((sibling.get("lfs") or {}).get("sha256") or sibling.get("blobId") or "")
    return HubFile(str(sibling["rfilename"]), int(sibling.get("size") or 0), blob)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
