"""From a diagnosis to a corrected job: the next lever of the ladder, or the conservative set at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..contracts import Change, Correction, Diagnosis, Job, Language, Sentence, Strength, say
from ..guard.draft import draft
from ..guard.ladders import Rung, advice_kind, ladder, levers_without_a_job
from ..guard.levers import Move
from ..guard.places import where
from ..guard.situation import HOST_CAUSES, Situation
from ..job import locked, settings


def correct(
    job: Job | None,
    diagnosis: Diagnosis,
    strength: Strength = "next",
    locks: Sequence[str] = (),
    comments: Language | None = "en",
    write: bool = True,
) -> Correction:
    """The job with what the diagnosis calls for, or the same job and a note that says why nothing is left.

    ``next`` pulls one lever, ``safe`` the conservative set for media and stage. A locked key is never touched. The
    first process is corrected. Without ``write`` the changes are found and the corrected text is not made.
    ``comments``: the language of the reasons written into a YAML job. Raises JobError for a lock that is no path.
    """
    for lock in locks:
        locked("train", (lock,))
    if diagnosis.advice != "change_job" and not (diagnosis.advice == "fix_host" and diagnosis.cause in HOST_CAUSES):
        return Correction(job)
    if job is None:
        return Correction(None, _advice(diagnosis, locks), _reminder(diagnosis))
    first = settings(job)
    if not first.trains:
        return Correction(job, (), (say("correct.not_training"),))
    at = Situation.of(first, diagnosis, strength)
    changes, notes = _Pulling(job, at, locks).pull()
    if at.load_is_all_weights:
        notes += (say("correct.load_is_all_weights"),)
    if not at.architecture.known:
        notes += (say("correct.unknown_architecture", name=first.architecture),)
    if not changes:
        return Correction(job, (), (*notes, say(_nothing_left(diagnosis))))
    if not write:
        return Correction(None, changes, (*notes, *_reminder(diagnosis)))
    from ..job import edit

    return Correction(edit(job, changes, comments), changes, (*notes, *_reminder(diagnosis)))


class _Pulling:
    """Rungs pulled on one job, each on what the ones before have made of it."""

    def __init__(self, job: Job, at: Situation, locks: Sequence[str]) -> None:
        self.job, self.at, self.locks = job, at, locks
        self.changes: dict[str, Change] = {}
        self.notes: dict[Sentence, None] = {}

    def pull(self) -> tuple[tuple[Change, ...], tuple[Sentence, ...]]:
        if self.at.strength == "safe":
            for rung in ladder(self.at, "safe"):
                self._pull_rung(rung)
        if not self.changes:
            for rung in ladder(self.at, "next"):
                if self._pull_rung(rung):
                    break
        return tuple(self.changes.values()), tuple(self.notes)

    def _pull_rung(self, rung: Rung) -> bool:
        """Make the rung's first move that no lock forbids; whether there was one."""
        name = rung.lever.name
        for move in rung.moves(self.at):
            blocked = next(self._blocked(move), None)
            if blocked is None:
                self._make(name, move)
                return True
            self.notes[say("correct.locked", lever=say(f"lever.{name}.name"), path=blocked)] = None
        return False

    def _blocked(self, move: Move) -> Iterator[str]:
        """The keys that a lock keeps a move from."""
        for each in move:
            for path in (each.path, each.moves_with_it):
                if path and not each.companion and locked(path, self.locks):
                    yield path

    def _make(self, lever: str, move: Move) -> None:
        before = self.at.settings
        for each in move:
            if locked(each.path, self.locks):
                self.notes[say("correct.companion_locked", path=each.path)] = None
                continue
            path = before.place(each.path)
            known = self.changes.get(path)
            old = known.old if known else before.written(path)
            place = where(path, self.at.architecture)
            self.changes[path] = Change(lever, path, old, each.new, each.reason, each.price, place)
        self.at = replace(self.at, settings=draft(self.job, self.changes.values()))


def _advice(diagnosis: Diagnosis, locks: Sequence[str]) -> tuple[Change, ...]:
    """What the ladder begins with, where no job is known: which of it is in force already, the reader has to see."""
    changes = []
    for lever in levers_without_a_job(diagnosis):
        kind = advice_kind(lever, diagnosis)
        path, new = lever.entry[kind]["path"], lever.entry[kind]["new"]
        if not locked(path, locks):
            said = f"lever.{lever.name}.{kind}"
            changes.append(
                Change(lever.name, path, None, new, say(f"{said}.reason"), say(f"{said}.price"), where(path))
            )
    return tuple(changes)


def _reminder(diagnosis: Diagnosis) -> tuple[Sentence, ...]:
    """Why what the reader may expect is not changed."""
    return (say("correct.not_touched"),) if diagnosis.advice == "change_job" else ()


def _nothing_left(diagnosis: Diagnosis) -> str:
    host = diagnosis.cause in HOST_CAUSES
    return "correct.nothing_left_host" if host else "correct.nothing_left"
