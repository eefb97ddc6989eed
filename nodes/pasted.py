"""Keep pasted text under a name made of its content, with secrets and home folders masked, in the input folder."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from ..headroom.diagnosis.log_text import chunks
from ..headroom.job import read_job
from ..headroom.report.masking import masked_chunks
from .errors import InputError
from .sources import Kind

LARGEST_BYTES = {"log": 64 << 20, "job": 1 << 20}


@dataclass(frozen=True)
class Pasted:
    """What was kept: its name under the input folder, and the lines (1-based) that masking changed."""

    name: str
    lines: int
    masked_lines: dict[int, str] = field(repr=False)


def keep(raw: bytes, kind: Kind, folder: Path) -> Pasted:
    """Write the text, masked and in UTF-8, to ``<folder>/<hash>.log`` (``.yaml`` or ``.json`` for a job).

    The name ends in ``.masked.`` where masking changed something. The same text always gets the same name.
    Raises InputError for text that is empty or too large, ``JobError`` for a job that AI Toolkit could not read.
    """
    if len(raw) > LARGEST_BYTES[kind]:
        raise InputError("paste_too_large", mib=len(raw) / 2**20, most=LARGEST_BYTES[kind] >> 20)
    if not raw.strip():
        raise InputError("paste_empty")
    ending = "log" if kind == "log" else read_job(b"".join(chunks(raw)).decode("utf-8", "replace")).syntax
    folder.mkdir(parents=True, exist_ok=True)
    content = hashlib.sha256()
    masked_lines: dict[int, str] = {}
    line = 0
    temporary = folder / f".{uuid4().hex}"
    try:
        with temporary.open("xb") as file:
            for chunk in chunks(raw):
                (clean,) = masked_chunks([chunk])
                if clean != chunk:
                    masked_lines |= _differences(chunk, clean, line)
                line += chunk.count(b"\n")
                content.update(clean)
                file.write(clean)
        mark = ".masked" if masked_lines else ""
        path = folder / f"{content.hexdigest()[:16]}{mark}.{ending}"
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return Pasted(f"{folder.name}/{path.name}", line + 1, masked_lines)


def _differences(chunk: bytes, clean: bytes, before: int) -> dict[int, str]:
    pairs = zip(chunk.split(b"\n"), clean.split(b"\n"), strict=True)
    return {before + number: new.decode("utf-8", "replace") for number, (old, new) in enumerate(pairs, 1) if old != new}


def was_masked(name: str) -> bool:
    """Whether something was masked in the pasted text of this name, so that a job needs it back before it runs."""
    return ".masked." in name
