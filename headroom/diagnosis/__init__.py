"""Read a log or a run folder, find the evidence, say what failed."""

from .diagnose import diagnose
from .reading import LogReading, read_log

__all__ = ["LogReading", "diagnose", "read_log"]
