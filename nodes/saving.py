"""Write a job under a name of its own, over nothing that is already there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sockets import CarriedJob

_LONGEST = 80
_UNSAFE = re.compile(r"[^\w. \-]+")
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def file_name(asked: str, carried: CarriedJob) -> str:
    """A name that every file system takes: from what was asked, else from the job's own name."""
    own = (carried.job.data.get("config") or {}).get("name")
    wanted = asked.strip() or f"{own or 'job'}{'-corrected' if carried.before else ''}"
    safe = _UNSAFE.sub("_", wanted)[:_LONGEST].strip(" ._") or "job"
    return f"job-{safe}" if _RESERVED.fullmatch(safe) else safe


def write_job(carried: CarriedJob, asked: str, folder: Path) -> Path:
    """Write the job's text into the folder and return the file; the same text under the same name is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    name = file_name(asked, carried)
    content = carried.job.text.encode("utf-8")
    number = 1
    while True:
        behind = "" if number == 1 else f"-{number}"
        path = folder / f"{name}{behind}.{carried.job.syntax}"
        try:
            with path.open("xb") as file:
                file.write(content)
            return path
        except FileExistsError:
            if path.is_file() and path.read_bytes() == content:
                return path
            number += 1
