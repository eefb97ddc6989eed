"""From a diagnosis to a corrected job."""

from .correct import correct
from .recover import Recovery, recover

__all__ = ["Recovery", "correct", "recover"]
