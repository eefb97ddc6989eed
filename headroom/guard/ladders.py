"""Which levers answer a failure, and in which order: ``configs/ladders.yaml`` read for one situation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .. import configs
from ..contracts import Diagnosis, Strength
from .levers import Lever, Move, levers
from .situation import HOST_CAUSES, Situation


@dataclass(frozen=True)
class Rung:
    """One place on a ladder: a lever and what is asked of it."""

    lever: Lever
    how: Mapping[str, Any]

    def moves(self, at: Situation) -> Iterator[Move]:
        """The lever's moves, where it lowers a phase that failed."""
        if at.phases & set(self.lever.entry["lowers"]):
            yield from self.lever.moves(at, **self.how)


def ladder(at: Situation, strength: Strength) -> tuple[Rung, ...]:
    """The rungs that answer the situation: in order, or with ``safe`` those that are pulled together."""
    names = [_answer(at.cause, at.stage, at.caching if at.stage == "cache" else ())]
    if at.load_is_all_weights:
        names.append(_answer(at.cause, "unknown", ()))
    kind = "safe" if strength == "safe" else at.media
    return tuple(_rung(each) for name in names for each in configs.load("ladders")["ladders"][name][kind])


def levers_without_a_job(diagnosis: Diagnosis) -> tuple[Lever, ...]:
    """The first levers that a ladder has for the failure where nothing is known of the job, then those of video."""
    table = configs.load("ladders")
    orders = table["ladders"][_answer(diagnosis.cause, diagnosis.stage, (diagnosis.inside,))]
    image, video = ([_rung(each).lever for each in orders[media]] for media in ("image", "video"))
    first = [lever for lever in dict.fromkeys(image) if advice_kind(lever, diagnosis) in lever.entry]
    return (*first[: table["advice_without_job"]], *dict.fromkeys(lever for lever in video if lever not in image))


def advice_kind(lever: Lever, diagnosis: Diagnosis) -> str:
    """Which of a lever's pieces of advice fits: the host may need the opposite of what the card needs."""
    host = diagnosis.cause in HOST_CAUSES
    return "host_advice" if host and "host_advice" in lever.entry else "advice"


def _answer(cause: str, stage: str, caching: tuple[str, ...]) -> str:
    for row in configs.load("ladders")["answers"]:
        fits = cause in row.get("cause", (cause,)) and stage in row.get("stage", (stage,))
        if fits and list(caching) == row.get("caching", list(caching)):
            return str(row["ladder"])
    raise LookupError("configs/ladders.yaml: the last answer has to fit everything")


def _rung(written: str | Mapping[str, Mapping[str, Any]]) -> Rung:
    name, how = (written, {}) if isinstance(written, str) else next(iter(written.items()))
    return Rung(levers()[name], how)
