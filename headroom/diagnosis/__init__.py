"""Read a log or a run folder, find the evidence, say what failed."""

from .diagnose import diagnose
from .findings import LogReading
from .reading import read_log

__all__ = ["LogReading", "diagnose", "read_log"]
