"""AI Toolkit's files: from a git repository, an archive or a folder, into the workplace."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from ..configs import load
from ..contracts import say
from ..run.locate import NOTE, commit_of, noted, recognise
from .progress import Progress, SetupError
from .workplace import Workplace

_ARCHIVE = re.compile(r"\.(zip|tar|tgz|tar\.gz)$", re.IGNORECASE)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(\.git)?/?")
_NOT_COPIED = ("venv", ".venv", ".uv", "node_modules", "__pycache__", "output")
_PIECE = 256 * 1024
_NO_ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Origin:
    """Where AI Toolkit's files are to come from; ``commit`` is what was asked for, a branch or a tag too."""

    source: str
    commit: str | None

    @classmethod
    def asked(cls, source: str | None, commit: str | None) -> Origin:
        """The pinned commit of AI Toolkit's own repository, unless something else is asked for. Raises SetupError."""
        for asked in (source, commit):
            if asked is not None and (not asked.strip() or asked.startswith("-")):
                raise SetupError(say("setup.no_name", name=asked))  # a program would take it for an option
        pinned = load("ai_toolkit")
        if source is None:
            return cls(pinned["repository"], commit or pinned["commit"])
        local = _local(source)
        return cls(source if local is None else str(local.absolute()), commit)


def fetch(origin: Origin, place: Workplace) -> Path:
    """Bring the files into the workplace and note there where they are from; their folder.

    What an earlier setup fetched whole of the same origin is taken as it is. Raises SetupError.
    """
    folder = place.folder / "sources"
    if recognise(folder) and all(noted(folder).get(name) == value for name, value in asdict(origin).items()):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    place.tell(Progress("source", detail=origin.source))
    found = _fetch(origin, folder, place)
    if not recognise(folder):
        raise SetupError(say("setup.not_ai_toolkit", source=origin.source))
    (folder / NOTE).write_text(json.dumps(asdict(origin) | {"found": found}), encoding="utf-8")
    return folder


def _fetch(origin: Origin, folder: Path, place: Workplace) -> str | None:
    """Fill the folder; the commit that its files are, where that can be known."""
    local = _local(origin.source)
    if local is not None and not local.exists():
        raise SetupError(say("setup.no_such_source", source=origin.source))
    if _ARCHIVE.search(origin.source):
        return _archive(origin, local, folder, place)
    if local is not None and not (local / "HEAD").is_file():  # no bare repository: files that can be taken as they are
        if origin.commit is None:
            return _copy(local, folder, place)
        if not (local / ".git").exists():
            raise SetupError(say("setup.no_commit_in_folder", source=origin.source, commit=origin.commit))
    if shutil.which("git"):
        return _clone(origin.source, origin.commit, folder, place)
    if local is not None and origin.commit == commit_of(local):
        return _copy(local, folder, place)
    if found := _GITHUB.fullmatch(origin.source):
        commit = origin.commit or "HEAD"
        archive = Origin(f"https://github.com/{found[1]}/archive/{commit}.zip", origin.commit)
        return _archive(archive, None, folder, place)
    raise SetupError(say("setup.no_git", source=origin.source))


def _local(source: str) -> Path | None:
    """The path that a source names; ``None`` for an address."""
    if source.startswith("file://"):
        return Path(urllib.request.url2pathname(urllib.parse.urlsplit(source).path))
    return None if re.match(r"\w[\w+.-]+://|[\w.-]+@[\w.-]+:", source) else Path(source).expanduser()


def _clone(address: str, commit: str | None, folder: Path, place: Workplace) -> str | None:
    """The one commit and nothing before it; where a server hands out no single commits, all of them."""

    def git(*arguments: str) -> None:
        place.run("source", ["git", "-C", folder, *arguments])

    folder.mkdir(parents=True)
    git("init", "-q")
    try:
        git("fetch", "--progress", "--depth", "1", address, commit or "HEAD")
    except SetupError:
        if commit is None or not re.fullmatch(r"[0-9a-f]{7,40}", commit):
            raise
        place.go_on()
        git("fetch", "--progress", address, "+refs/*:refs/fetched/*")
        git("checkout", "-q", "--detach", commit)
    else:
        git("checkout", "-q", "--detach", "FETCH_HEAD")
    if (folder / ".gitmodules").is_file() and (folder / ".gitmodules").read_text(encoding="utf-8").strip():
        git("submodule", "update", "--init", "--recursive", "--depth", "1")
    return commit_of(folder)


def _copy(source: Path, folder: Path, place: Workplace) -> str | None:
    def left_out(where: str, names: list[str]) -> set[str]:
        place.go_on()
        return {name for name in names if name in _NOT_COPIED or Path(where, name) == place.folder}

    shutil.copytree(source, folder, ignore=left_out, symlinks=True)
    return commit_of(folder)


def _archive(origin: Origin, local: Path | None, folder: Path, place: Workplace) -> str | None:
    file = local or _download(origin.source, place)
    unpacked = place.folder / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    try:
        commit = _unpack(file, unpacked, place)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise SetupError(say("setup.broken_archive", source=origin.source, why=error)) from None
    finally:
        if local is None:
            file.unlink(missing_ok=True)
    if commit and origin.commit and _COMMIT.fullmatch(origin.commit) and commit != origin.commit:
        raise SetupError(say("setup.other_commit", source=origin.source, commit=origin.commit, found=commit))
    inside = list(unpacked.iterdir())
    top = inside[0] if len(inside) == 1 and not recognise(unpacked) else unpacked  # GitHub puts all into one folder
    top.rename(folder)
    shutil.rmtree(unpacked, ignore_errors=True)
    return commit


def _download(address: str, place: Workplace) -> Path:
    file = place.folder / Path(urllib.parse.urlsplit(address).path).name
    with _answering(address), urllib.request.urlopen(address, timeout=_NO_ANSWER_SECONDS) as answer:
        length = answer.headers.get("Content-Length")
        total = int(length) if length and length.isdecimal() else None
        done = 0
        with open(file, "wb") as out:
            while piece := answer.read1(_PIECE):
                place.go_on()
                out.write(piece)
                done += len(piece)
                place.tell(Progress("source", done, total, address))
    if total is not None and done != total:
        raise SetupError(say("setup.cut_short", source=address, done=done, total=total))
    return file


@contextmanager
def _answering(address: str) -> Iterator[None]:
    import http.client

    try:
        yield
    except urllib.error.HTTPError as error:
        raise SetupError(say("setup.no_answer", source=address, why=f"{error.code} {error.reason}")) from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise SetupError(say("setup.no_answer", source=address, why=getattr(error, "reason", error))) from None


def _unpack(archive: Path, folder: Path, place: Workplace) -> str | None:
    """Unpack files and folders, nothing else and nowhere else; the commit that git wrote into the archive."""
    if archive.suffix.lower() == ".zip":
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                if not member.is_dir():
                    with opened.open(member) as content:
                        _write(content, folder, member.filename, place)
            commit = opened.comment.decode("ascii", "replace")
    else:
        with tarfile.open(archive) as opened:
            for entry in opened:
                file = opened.extractfile(entry) if entry.isfile() else None
                if file:
                    _write(file, folder, entry.name, place)
            commit = opened.pax_headers.get("comment", "")
    return commit if _COMMIT.fullmatch(commit) else None


def _write(content: IO[bytes], folder: Path, name: str, place: Workplace) -> None:
    place.go_on()
    inside = PurePosixPath(name.replace("\\", "/"))
    if inside.is_absolute() or ".." in inside.parts or ":" in name:
        raise SetupError(say("setup.unsafe_archive", name=name))
    path = folder.joinpath(*inside.parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as out:
        shutil.copyfileobj(content, out)
