"""The levers: each one setting that trades memory against something.

A new one is an entry in ``configs/levers.yaml``, a class here, and its place in ``configs/ladders.yaml``.
"""

from functools import cache

from ... import configs
from .buckets import LargestBucket
from .caches import LatentCache, TextEmbeddingCache
from .ema import Ema
from .frames import Frames
from .lever import Edit, Lever, Move
from .loader import LoaderWorkers
from .sampling import Sampling
from .training import BatchSize, GradientCheckpointing
from .weights import LayerOffloading, LowVram, Precision, Quantization

_CLASSES: tuple[type[Lever], ...] = (
    GradientCheckpointing,
    BatchSize,
    LargestBucket,
    Frames,
    Sampling,
    LowVram,
    Quantization,
    LayerOffloading,
    TextEmbeddingCache,
    LatentCache,
    Precision,
    LoaderWorkers,
    Ema,
)


@cache
def levers() -> dict[str, Lever]:
    """Every lever by its name."""
    entries = configs.load("levers")["levers"]
    return {each.name: each(entries[each.name]) for each in _CLASSES}


__all__ = ["Edit", "Lever", "Move", "levers"]
