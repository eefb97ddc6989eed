"""Which AI Toolkit may be chosen from a page: ComfyUI has no login, so whoever reaches it could ask for any program."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..contracts import say
from .locate import FOLDER, LocateError, python_inside, recognise

_LONGEST = 1000  # characters


def chosen(text: str, written_by_pages: Iterable[Path]) -> Path:
    """The folder that somebody typed, without links, if it is an AI Toolkit with its own Python. Raises LocateError.

    Refused is all that a page itself could have put there: what lies, or is linked, in the folders that ComfyUI's page
    writes to. The environment (``HEADROOM_AI_TOOLKIT``) takes any folder, because only the server's owner sets it.
    """
    text = text.strip()
    try:
        named = Path(text).expanduser()
        # On Windows //host/share would sign in at that host before anything could be judged.
        remote = text[:2] in ("//", "\\\\")
        if not text.isprintable() or len(text) > _LONGEST or remote or not named.is_absolute():
            raise LocateError(say("choose.no_path"))
        folder = named.resolve()
        if not recognise(folder):
            raise LocateError(say("choose.not_recognised", folder=str(named)))
        python = python_inside(folder)
        environment = python.parent.parent if python else folder
        if python is None or not (environment / "pyvenv.cfg").is_file() or not _inside(environment, folder):
            raise LocateError(say("choose.no_python", folder=str(folder)))
        used = (folder, environment, python, *(folder / name for name in ("run.py", "version.py", "toolkit", "jobs")))
        for place in written_by_pages:
            if any(_inside(path, place) for path in used):
                raise LocateError(say("choose.written_by_pages", place=str(place), setting=FOLDER))
    except (OSError, RuntimeError, ValueError) as error:  # no permission, a loop of links, a name that cannot be
        raise LocateError(say("choose.unreadable", why=getattr(error, "strerror", None) or str(error))) from None
    return folder


def _inside(path: Path, place: Path) -> bool:
    """Whether a path leads into a folder, links followed; told by what the folders are, since names may differ."""
    target = path.resolve()
    return place.exists() and any(above.samefile(place) for above in (target, *target.parents))
