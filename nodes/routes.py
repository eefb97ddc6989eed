"""The addresses the page needs beyond ComfyUI's own; here, where pasted text goes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from aiohttp import web
from server import PromptServer

from . import routes_gpus, routes_settings  # noqa: F401  (register theirs)
from .page import body, own_page_only

if TYPE_CHECKING:
    from .sources import Kind

log = logging.getLogger(__name__)


@PromptServer.instance.routes.post("/headroom/pasted")
@own_page_only
async def keep_pasted(request: web.Request) -> web.Response:
    """Keep the body as a log or a job (``?kind=log|job``) and answer with the name it got.

    Answers 400 with ``{"problem": …}`` in the asked language (``&lang=zh``) for text that cannot be kept.
    """
    from .errors import InputError, told_in
    from .language import languages
    from .pasted import LARGEST_BYTES, keep
    from .places import places

    kind = request.query.get("kind", "")
    asked = request.query.get("lang", "auto")
    try:
        with told_in(languages(asked)[0]):
            if kind not in LARGEST_BYTES:
                raise InputError("paste_kind", kind=kind[:40])
            sent = await body(request, LARGEST_BYTES[kind])
            kept = await asyncio.to_thread(keep, sent, cast("Kind", kind), places().pasted)
    except ValueError as error:
        return web.json_response({"problem": str(error)}, status=400)
    except OSError as error:
        log.exception("pasted text could not be written")
        return web.json_response({"problem": f"{type(error).__name__}: {error.strerror}"}, status=500)
    return web.json_response({"name": kept.name, "lines": kept.lines, "masked_lines": kept.masked_lines})
