"""Any log as UTF-8 chunks: a file, a folder, pasted text; in UTF-8, UTF-16, GB18030 or broken; without colour codes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 20
JOBS_BESIDE_LOGS = (".job_config.json", "job.yaml", "job.json")
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


def find_log(source: Path) -> Path:
    """The log a path stands for: itself, or the ``log.txt`` that AI Toolkit's UI keeps in a job's folder.

    Raises FileNotFoundError where a folder holds none.
    """
    if not source.is_dir():
        return source
    log = source / "log.txt"
    if not log.is_file():
        raise FileNotFoundError(f"no log.txt in {source}")
    return log


def find_job(folder: Path) -> Path | None:
    """The job that AI Toolkit's UI, or a run of ours, keeps beside the log of a job's folder, where there is one."""
    return next((folder / name for name in JOBS_BESIDE_LOGS if (folder / name).is_file()), None)


def _pieces(source: bytes | Path) -> Iterator[bytes]:
    if isinstance(source, bytes):
        for start in range(0, len(source), CHUNK):
            yield source[start : start + CHUNK]
        return
    with open(source, "rb") as file:
        while piece := file.read(CHUNK):
            yield piece


def _utf16(head: bytes) -> str | None:
    if head[:2] in _UTF16:
        return _UTF16[head[:2]]
    # Without a mark: ASCII in UTF-16 has a NUL in every other place, a log with a few stray NULs does not.
    sample = head[:4096]
    odd, even = sample[1::2].count(0), sample[0::2].count(0)
    if len(sample) >= 8 and max(odd, even) > 0.3 * len(sample) / 2 and max(odd, even) > 4 * min(odd, even):
        return "utf-16-le" if odd > even else "utf-16-be"
    return None


def _utf8(chunk: bytes) -> bytes:
    """The chunk in UTF-8: as it is, or from GB18030 where that, and not a few broken bytes, explains it."""
    try:
        chunk.decode()
        return chunk
    except UnicodeDecodeError:
        pass
    high = sum(map(len, re.findall(rb"[\x80-\xff]+", chunk)))
    valid = sum(map(len, _MULTIBYTE.findall(chunk)))
    if valid * 2 >= high:
        return chunk
    return chunk.decode("gb18030", "replace").encode("utf-8")


def chunks(source: str | bytes | Path) -> Iterator[bytes]:
    """The log in UTF-8 chunks of about 1 MiB that end at a line's end where they can, cleaned of NULs and ANSI codes.

    Reads every byte once. Undecodable bytes stay as they are; readers decode with ``errors="replace"``.
    """
    if isinstance(source, str):
        source = source.encode("utf-8", "replace")
    decoder: codecs.IncrementalDecoder | None = None
    carry = b""
    first = True
    for raw in _pieces(source):
        piece = raw
        if first:
            first = False
            encoding = _utf16(piece)
            decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
            piece = piece.removeprefix(b"\xef\xbb\xbf")
        if decoder:
            piece = decoder.decode(piece).removeprefix("\ufeff").encode("utf-8", "replace")
        piece = carry + piece
        # Hold back the open line, so that no character, code or message is cut in two.
        cut = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        if cut == 0 and len(piece) < 4 * CHUNK:
            carry = piece
            continue
        piece, carry = (piece[:cut], piece[cut:]) if cut else (piece, b"")
        yield _clean(piece, decoder is None)
    if carry:
        yield _clean(carry, decoder is None)


def _clean(piece: bytes, eight_bit: bool) -> bytes:
    if eight_bit:
        piece = _utf8(piece)
    if b"\0" in piece:
        piece = piece.replace(b"\0", b"")
    if b"\x1b" in piece:
        piece = _ANSI.sub(b"", piece)
    return piece
