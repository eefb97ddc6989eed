"""The address of live readings: the GPUs as the driver reports them, at most two seconds old."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from aiohttp import web
from server import PromptServer

from .page import language
from .recent import Recent

if TYPE_CHECKING:
    from ..headroom.memory.nvml import GpuReading

READING_SECONDS = 2.0


def _read() -> GpuReading:
    from ..headroom.memory.nvml import read_gpus

    return read_gpus()


reading = Recent(_read, READING_SECONDS)


@PromptServer.instance.routes.get("/headroom/gpus")
async def show_gpus(request: web.Request) -> web.Response:
    """Each card with its memory and who uses it; ``notes`` say in the asked language what the driver does not tell."""
    from ..headroom.report.wording import words

    found, lang = await reading.get(), language(request)
    gpus = [asdict(gpu) | {"unshown_gib": gpu.unshown_gib} for gpu in found.gpus]
    notes = [words(note, lang) for note in found.notes]
    return web.json_response({"driver": found.driver, "gpus": gpus, "notes": notes})
