"""Jobs of AI Toolkit: read them as it does, look up what it would use, edit their text in place."""

from typing import TYPE_CHECKING, Any

from .errors import JobError
from .paths import locked
from .previews import Preview, previews, prompt_flags, with_flags
from .reading import job_from_log, read_job, read_job_file
from .settings import Settings, settings

if TYPE_CHECKING:
    from .editing import edit

__all__ = [
    "JobError",
    "Preview",
    "Settings",
    "edit",
    "job_from_log",
    "locked",
    "previews",
    "prompt_flags",
    "read_job",
    "read_job_file",
    "settings",
    "with_flags",
]


def __getattr__(name: str) -> Any:
    """``edit`` comes in when it is first asked for: many answers need no text, and its modules are the largest."""
    if name == "edit":
        from .editing import edit

        return edit
    raise AttributeError(name)
