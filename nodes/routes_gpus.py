"""The address of live readings: the GPUs as the driver reports them, at most two seconds old."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiohttp import web
from server import PromptServer

from .page import language
from .recent import Recent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..headroom.memory.nvml import GpuReading

READING_SECONDS = 2.0


def _read() -> GpuReading:
    from ..headroom.memory.nvml import read_gpus

    return read_gpus()


reading = Recent(_read, READING_SECONDS)


@PromptServer.instance.routes.get("/headroom/gpus")
async def show_gpus(request: web.Request) -> web.Response:
    """Each card with its memory and who uses it; ``notes`` say in the asked language what the driver does not tell.

    With a budget node's ``gpu``, ``vram``, ``unit``, ``reserve_gib`` and ``mode``, also the ``node``'s own lines; with
    ``gpu`` alone these do not speak of a budget.
    """
    from ..headroom.report.wording import words

    found, lang = await reading.get(), language(request)
    gpus = [asdict(gpu) | {"unshown_gib": gpu.unshown_gib} for gpu in found.gpus]
    answer: dict[str, Any] = {
        "driver": found.driver,
        "gpus": gpus,
        "notes": [words(note, lang) for note in found.notes],
    }
    if "gpu" in request.query:
        answer["node"] = _node(found, request.query, lang)
    return web.json_response(answer)


def _node(found: GpuReading, inputs: Mapping[str, str], lang: str) -> dict[str, Any]:
    """What the budget node with these inputs says, or its ``problem``."""
    from dataclasses import replace

    from ..headroom.memory.budgeting import BudgetError
    from ..headroom.report.wording import words
    from .budget import MODES, UNITS, card_named, granted
    from .errors import InputError
    from .live_readings import readings

    try:
        gpu, budget = card_named(found, inputs["gpu"]), None
        if inputs.get("unit") in UNITS:
            vram, reserve_gib = float(inputs.get("vram", "")), float(inputs.get("reserve_gib", "0"))
            budget = granted(found, gpu, vram, inputs["unit"], reserve_gib)
            budget = replace(budget, enforce=inputs.get("mode", MODES[0]) == MODES[0])
    except InputError as error:
        return {"problem": error.told(lang)}
    except BudgetError as error:
        return {"problem": words(error.sentence, lang)}
    except ValueError:
        raise web.HTTPBadRequest(text="vram and reserve_gib are numbers.") from None
    return readings(found, gpu, budget, lang)
