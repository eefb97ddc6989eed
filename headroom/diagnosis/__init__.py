"""Read a log or a run folder, find the evidence, say what failed."""

from .diagnose import diagnose
from .findings import LogReading
from .log_text import find_job
from .reading import read_log

__all__ = ["LogReading", "diagnose", "find_job", "read_log"]
