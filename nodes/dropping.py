"""Where the page sends files that were dropped on a Dataset node."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import BodyPartReader, web
from server import PromptServer

from .page import language, own_page_only

if TYPE_CHECKING:
    from .dropped import Incoming

log = logging.getLogger(__name__)


@PromptServer.instance.routes.post("/headroom/datasets")
@own_page_only
async def keep_dropped(request: web.Request) -> web.Response:
    """Keep the files of a form as a dataset; answers with its name in the input folder and what was left out.

    Each part's file name may hold folders. Answers 400 with ``{"problem": …}`` in the asked language (``?lang=zh``)
    where nothing can be kept.
    """
    from ..headroom.report.wording import words
    from .datasets import DATASETS
    from .dropped import Incoming
    from .errors import InputError, told_in
    from .places import places

    lang, root = language(request), places().input
    try:
        (root / DATASETS).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".coming-", dir=root / DATASETS))
        try:
            with told_in(lang):
                if not request.content_type.startswith("multipart/"):
                    raise InputError("dropped_nothing", left_out="")
                incoming = Incoming(folder)
                await _receive(request, incoming)
                kept = await asyncio.to_thread(incoming.finish, root)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    except ValueError as error:
        return web.json_response({"problem": str(error)}, status=400)
    except OSError as error:
        log.exception("dropped files could not be written")
        return web.json_response({"problem": f"{type(error).__name__}: {error.strerror}"}, status=500)
    left_out = [words(sentence, lang) for sentence in kept.left_out]
    return web.json_response({"name": kept.name, "media": kept.media, "captions": kept.captions, "left_out": left_out})


async def _receive(request: web.Request, incoming: Incoming) -> None:
    """Every file of the form, written as it arrives."""
    reader = await request.multipart()
    while (part := await reader.next()) is not None:
        name = part.filename if isinstance(part, BodyPartReader) else None  # not of a form inside the form
        if not isinstance(part, BodyPartReader) or not name or not incoming.wants(name):
            continue
        with incoming.open(name) as received:
            while piece := await part.read_chunk(1 << 20):
                received.write(piece)
        await asyncio.to_thread(incoming.take, received)
