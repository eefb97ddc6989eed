"""Keep files that were dropped on a node as a dataset: pictures, clips, sounds and captions, from files or a zip.

Nothing of what is sent chooses where it is written: names are made safe, folders are dropped, and the dataset lies in
the input folder under a name made of its content.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from ..headroom.contracts import Sentence, say
from ..headroom.media import kind_of
from .datasets import DATASETS, being_written
from .errors import InputError

CAPTION = ".txt"
ZIP = ".zip"
GIB = 1 << 30
_PIECE = 1 << 20
_LONGEST = 80
_NAMED = 3
_UNSAFE = re.compile(r"[^\w .()+,@-]+")
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # names that Windows keeps for devices
_SYSTEM = ("__MACOSX", "Thumbs.db", "desktop.ini")


@dataclass(frozen=True)
class Limits:
    """What is taken at most, in bytes and files, and what has to stay free on the disk."""

    file: int = 4 * GIB
    total: int = 16 * GIB
    files: int = 20_000
    free: int = 2 * GIB
    ratio: int = 100  # of a zip: pictures and clips hardly shrink
    ratio_from: int = 64 << 20


@dataclass(frozen=True)
class Kept:
    """A dataset that was kept: its name under the input folder, how many files to train on, and what was left out."""

    name: str
    media: int
    captions: int
    left_out: tuple[Sentence, ...]


@dataclass
class Incoming:
    """Files as they come in, in a folder of their own until ``finish``. Raises InputError where there is too much."""

    folder: Path
    limits: Limits = field(default_factory=Limits)
    _taken: list[tuple[PurePosixPath, Path, str]] = field(default_factory=list)
    _refused: dict[str, list[str]] = field(default_factory=dict)
    _opened: int = 0
    _bytes: int = 0

    def wants(self, name: str) -> bool:
        """Whether a file of that name belongs into a dataset; if not, that is remembered."""
        path = _path(name)
        if any(part in _SYSTEM or (part.startswith(".") and part != "..") for part in path.parts):
            return False  # what systems leave behind is nobody's picture
        wanted = path.suffix.lower() in (CAPTION, ZIP) or kind_of(path.name) is not None
        if not wanted:
            self._refused.setdefault("kind", []).append(path.name)
        return wanted

    def open(self, name: str) -> Receiving:
        """A place to write a file that is wanted."""
        if self._opened >= self.limits.files:
            raise InputError("dropped_files", most=self.limits.files)
        self._opened += 1
        return Receiving(self, _path(name), self.folder / str(self._opened))

    def take(self, received: Receiving) -> None:
        """A file that was written whole; of a zip, what is in it."""
        if received.name.suffix.lower() == ZIP:
            self._unpack(received)
            received.path.unlink()
        else:
            self._taken.append((received.name, received.path, received.digest.hexdigest()))

    def count(self, size: int, of_file: int) -> None:
        """So many more bytes are written, so many of this file."""
        self._bytes += size
        for found, most in ((of_file, self.limits.file), (self._bytes, self.limits.total)):
            if found > most:
                raise InputError("dropped_too_large", most=most / GIB)

    def finish(self, root: Path) -> Kept:
        """Move everything into its dataset. Raises InputError where there is nothing to train on."""
        named = dict(self._named())
        if not any(kind_of(name) for name in named):
            raise InputError(
                "dropped_nothing", left_out=_listed([name for names in self._refused.values() for name in names])
            )
        content = hashlib.sha256()
        for name, (_, digest) in sorted(named.items()):
            content.update(f"{name}\0{digest}\0".encode())
        name = f"{DATASETS}/{content.hexdigest()[:16]}"
        with being_written(root / name) as whole:
            for each, (path, _) in named.items():
                path.rename(whole / each)
        captions = sum(each.endswith(CAPTION) for each in named)
        left_out = tuple(say(f"dropped.{key}", files=_listed(files)) for key, files in self._refused.items())
        return Kept(name, len(named) - captions, captions, left_out)

    def _unpack(self, received: Receiving) -> None:
        """What a zip holds, each file counted as it is unpacked: a zip's own sizes may lie."""
        try:
            with zipfile.ZipFile(received.path) as archive:
                for entry in archive.infolist():
                    if entry.is_dir() or not self.wants(entry.filename):
                        continue
                    if entry.flag_bits & 1:
                        self._refused.setdefault("locked", []).append(_path(entry.filename).name)
                    elif _path(entry.filename).suffix.lower() == ZIP:
                        self._refused.setdefault("zip_in_zip", []).append(_path(entry.filename).name)
                    else:
                        with archive.open(entry) as source, self.open(entry.filename) as inner:
                            self._copy(source, inner, received)
                        self.take(inner)
        except (InputError, OSError):
            raise
        except Exception:  # whatever a decompressor raises for what is broken
            raise InputError("dropped_zip", name=received.name.name) from None

    def _copy(self, source: IO[bytes], into: Receiving, of: Receiving) -> None:
        while piece := source.read(_PIECE):
            of.unpacked += len(piece)
            if of.unpacked > max(self.limits.ratio * of.size, self.limits.ratio_from):
                raise InputError("dropped_bomb", name=of.name.name, times=self.limits.ratio)
            into.write(piece)

    def _named(self) -> Iterator[tuple[str, tuple[Path, str]]]:
        """Safe names, a caption under that of its picture; names that differ only in folder or case get numbers."""
        stems: dict[tuple[str, str], str] = {}
        used: set[str] = set()
        for path, _, _ in sorted(self._taken):
            key = (str(path.parent), path.stem)
            if kind_of(path.name) and key not in stems:
                stems[key] = _unused(_safe(path.stem), used)
                used.add(stems[key].casefold())
        alone: list[str] = []
        given: set[str] = set()
        for path, written, digest in sorted(self._taken):
            stem = stems.get((str(path.parent), path.stem))
            if stem is None:
                alone.append(path.name)
                continue
            name = f"{stem}{path.suffix.lower()}"
            if name in given:  # a.PNG beside a.png
                stem = _unused(stem, used)
                used.add(stem.casefold())
                name = f"{stem}{path.suffix.lower()}"
            given.add(name)
            yield name, (written, digest)
        if alone:
            self._refused.setdefault("caption_alone", []).extend(alone)


class Receiving:
    """One file on its way: ``write`` its bytes, which are counted and hashed."""

    def __init__(self, incoming: Incoming, name: PurePosixPath, path: Path) -> None:
        self.incoming, self.name, self.path = incoming, name, path
        self.digest = hashlib.sha256()
        self.size = self.unpacked = 0  # bytes; of a zip also of what came out of it

    def __enter__(self) -> Receiving:
        self._file = self.path.open("xb")
        return self

    def write(self, piece: bytes) -> None:
        """Adds bytes. Raises InputError where that is too much, or the disk would fill up."""
        if self.size % (64 * _PIECE) < len(piece) and self._room() < self.incoming.limits.free:  # now and then
            raise InputError("dropped_disk", free=self.incoming.limits.free / GIB)
        self.size += len(piece)
        self.incoming.count(len(piece), self.size)
        self.digest.update(piece)
        self._file.write(piece)

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _room(self) -> int:
        return shutil.disk_usage(self.path.parent).free


def _path(name: str) -> PurePosixPath:
    """A name as it was sent, which may hold folders; nothing is ever written there."""
    return PurePosixPath(name.replace("\\", "/"))


def _safe(stem: str) -> str:
    clean = _UNSAFE.sub("_", unicodedata.normalize("NFC", stem)).strip(" .")[:_LONGEST].strip(" .")
    return f"file {clean}".strip() if not clean or _RESERVED.fullmatch(clean) or clean.startswith("-") else clean


def _unused(stem: str, taken: set[str]) -> str:
    number, found = 1, stem
    while found.casefold() in taken:
        number += 1
        found = f"{stem}-{number}"
    return found


def _listed(names: list[str]) -> Sentence | str:
    shown = tuple(name[:60] for name in names[:_NAMED])
    if len(names) > _NAMED:
        return say("building.files.more", files=shown, more=len(names) - _NAMED)
    return say("building.files.some", files=shown)
