"""What every lever has: a name, its entry in ``configs/levers.yaml``, and the moves it offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ...contracts import Sentence, say
from ..situation import Situation


@dataclass(frozen=True)
class Edit:
    """One key that a move sets. A ``companion`` is left out, and that is said, where a lock forbids it.

    ``moves_with_it``: a key that is not written, and whose value AI Toolkit takes from this one.
    """

    path: str
    new: Any
    reason: Sentence
    price: Sentence
    companion: bool = False
    moves_with_it: str = ""


Move = tuple[Edit, ...]


class Lever(ABC):
    """One setting that trades memory against something. ``entry`` is its entry in ``configs/levers.yaml``."""

    name: ClassVar[str]

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.entry = entry

    @abstractmethod
    def moves(self, at: Situation, **how: Any) -> Iterable[Move]:
        """The legal moves that are not yet made, the best first; ``how`` is what the ladder's rung asks of it.

        None where the lever does nothing for this architecture, or is already in force.
        """

    def set(
        self, path: str, new: Any, why: str = "", /, *, companion: bool = False, moves_with_it: str = "", **values: Any
    ) -> Edit:
        """An edit whose sentences are ``lever.<name>.<why>.reason`` and ``.price``."""
        key = f"lever.{self.name}.{why}" if why else f"lever.{self.name}"
        reason, price = say(f"{key}.reason", **values), say(f"{key}.price", **values)
        return Edit(path, new, reason, price, companion, moves_with_it)
