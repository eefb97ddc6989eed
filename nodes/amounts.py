"""Sizes and budgets in words."""

from __future__ import annotations

from ..headroom.contracts import Budget, Sentence, say


def size(gib: float) -> Sentence:
    """A size as a person says it: MiB where it is less than a tenth of a GiB."""
    return say("node.run.gib", gib=gib) if gib >= 0.1 else say("node.run.mib", mib=gib * 1024)


def budget_said(budget: Budget) -> Sentence:
    """What a run may take, in a few words."""
    if budget.vram_gib is None:
        vram = say("node.run.no_cap")
    else:
        vram = say("node.run.enforced" if budget.enforce else "node.run.watched", size=size(budget.vram_gib))
    if budget.host_ram_gib is None:
        return vram
    return say("node.run.with_ram", vram=vram, size=size(budget.host_ram_gib))
