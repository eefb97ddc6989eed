"""Folder names made of job names: legal on every system, inside their parent, and different for different jobs."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_ILLEGAL = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\u2028\u2029\u202a-\u202e\u2066-\u2069]')
# Names of devices, with any ending (Microsoft, "Naming Files, Paths, and Namespaces").
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3])(\..*)?", re.IGNORECASE)
_ANOTHER = re.compile(r"@\d+$")
_LONGEST_BYTES = 120  # a path of Windows has 260 characters, a name of Linux 255 bytes


def folder_name(name: str) -> str:
    """The name of a folder for a job's name; one that had to be changed ends in a digest of what it was."""
    clean = _ILLEGAL.sub("_", unicodedata.normalize("NFC", name)).strip(" .")
    if _RESERVED.fullmatch(clean):
        clean = f"_{clean}"
    short = clean.encode("utf-8", "ignore")[:_LONGEST_BYTES].decode("utf-8", "ignore").rstrip(" .")
    if short == name and name and not _ANOTHER.search(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{short or 'job'}-{digest}"


def another(folder: str, number: int) -> str:
    """The name of the ``number``-th folder for the same job; no job's own folder is called so."""
    return f"{folder}@{number}"
