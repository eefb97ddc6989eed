"""The lever on the averaged copy of the trained weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..situation import Situation
from .lever import Lever, Move


class Ema(Lever):
    """No exponential moving average: it holds every trained weight a second time, and a third after a preview."""

    name = "ema"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        if at.get("train.ema_config.use_ema") is True:
            yield (self.set("train.ema_config.use_ema", False),)
