"""Jobs of AI Toolkit: read them as it does, look up what it would use, edit their text in place."""

from .editing import edit
from .errors import JobError
from .paths import locked
from .previews import Preview, previews, prompt_flags, with_flags
from .reading import job_from_log, read_job, read_job_file
from .settings import Settings, settings

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
