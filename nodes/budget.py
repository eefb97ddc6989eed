"""How much of a card, and of the machine's memory, a run may take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from comfy_api.latest import io

from .errors import InputError, told_in
from .language import languages
from .run_train import checked
from .sockets import CATEGORY, BudgetSocket, CarriedBudget
from .wording import described

if TYPE_CHECKING:
    from ..headroom.contracts import Budget
    from ..headroom.memory.nvml import Gpu, GpuReading

AUTO = "auto"
UNITS = ("% of the card", "GiB")
MODES = ("enforce", "watch")
_RESERVE_GIB = 0.5


class HeadroomMemoryBudget(io.ComfyNode):
    """A card, and how much of it a run may take."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return described(
            io.Schema(
                node_id="HeadroomMemoryBudget",
                category=CATEGORY,
                inputs=[
                    io.Combo.Input("gpu", options=[AUTO], default=AUTO),  # the page offers the cards that there are
                    io.Float.Input("vram", default=100.0, min=0.001, max=100_000.0, step=0.5, round=0.001),
                    io.Combo.Input("unit", options=list(UNITS), default=UNITS[0]),
                    io.Float.Input("reserve_gib", default=_RESERVE_GIB, min=0.0, max=1000.0, step=0.1, optional=True),
                    io.Float.Input("host_ram_gib", default=0.0, min=0.0, max=100_000.0, step=1.0, optional=True),
                    io.Combo.Input("mode", options=list(MODES), default=MODES[0], optional=True),
                ],
                outputs=[BudgetSocket.Output("budget")],
                is_output_node=True,
            )
        )

    @classmethod
    def validate_inputs(cls, gpu: str) -> bool:
        return True  # card_named checks it, and says which cards there are

    @classmethod
    def execute(
        cls,
        gpu: str,
        vram: float,
        unit: str,
        reserve_gib: float = _RESERVE_GIB,
        host_ram_gib: float = 0.0,
        mode: str = MODES[0],
    ) -> io.NodeOutput:
        from ..headroom.memory.nvml import read_gpus

        with told_in(languages("auto")[0]):
            checked(unit=(unit, UNITS), mode=(mode, MODES))
            reading = read_gpus()
            budget = granted(reading, card_named(reading, gpu), vram, unit, reserve_gib)
        budget = replace(budget, host_ram_gib=host_ram_gib or None, enforce=mode == MODES[0])
        return io.NodeOutput(CarriedBudget(budget))


def label(gpu: Gpu) -> str:
    """A card as a person chooses it; the instances of one card are told apart by the end of their UUID."""
    name = f"{gpu.index}: {gpu.name}"
    return f"{name} ({gpu.uuid[-8:]})" if gpu.card else name


def card_named(reading: GpuReading, name: str) -> Gpu | None:
    """The card of that label, number, UUID or (if only one has it) name; for ``auto`` the first that may be used.

    Raises InputError where there is no such card.
    """
    from ..headroom.memory.budgeting import card

    if name == AUTO:
        return card(reading)
    wanted = name.strip().lower()
    for gpu in reading.gpus:
        if wanted in (label(gpu).lower(), str(gpu.index), gpu.uuid.lower()):
            return gpu
    similar = [gpu for gpu in reading.gpus if wanted and wanted in gpu.name.lower()]
    if len(similar) == 1:
        return similar[0]
    raise InputError("no_such_gpu", gpu=name[:80], gpus=[AUTO, *map(label, reading.gpus)])


def granted(reading: GpuReading, gpu: Gpu | None, vram: float, unit: str, reserve_gib: float) -> Budget:
    """The budget of a card by the node's inputs. Raises InputError, BudgetError where none can be granted."""
    from ..headroom.contracts import Budget
    from ..headroom.memory.budgeting import budget_of_card

    asked: dict[str, Any] = {"percent": vram} if unit == UNITS[0] else {"gib": vram}
    if gpu is not None:
        return budget_of_card(gpu, reserve_gib=reserve_gib, **asked)
    if unit == UNITS[0]:
        raise InputError("no_gpu", why=reading.notes[:1])
    return Budget(vram_gib=vram)
