"""Requests of ComfyUI's own page: told from those of other sites, read with a limit, answered in its language."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def from_another_site(request: web.Request) -> bool:
    """Whether a browser says that a page of another site sends this: ComfyUI itself refuses these only on loopback.

    ``Sec-Fetch-Site`` cannot be set by a page and holds behind any proxy, but comes only over https or to loopback;
    else ``Origin`` is held against the address asked for. What sends neither is no browser.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        # "none" is a person at the address bar. Not "same-site": that is every machine of the same provider.
        return site not in ("same-origin", "none")
    origin = request.headers.get("Origin")
    asked = [request.headers.get(name, "").lower() for name in ("Host", "X-Forwarded-Host")]
    return origin is not None and (urlsplit(origin).netloc.lower() or origin) not in asked


def own_page_only(handler: Handler) -> Handler:
    """A handler that answers 403 to what a page of another site sends."""

    @functools.wraps(handler)
    async def guarded(request: web.Request) -> web.StreamResponse:
        if from_another_site(request):
            return web.json_response({"problem": "This is only for ComfyUI's own page."}, status=403)
        return await handler(request)

    return guarded


async def body(request: web.Request, most: int) -> bytes:
    """The request's body, read only until it is known to be larger than so many bytes."""
    read = bytearray()
    async for piece in request.content.iter_chunked(1 << 18):
        read += piece
        if len(read) > most:
            break
    return bytes(read)


async def text_in(request: web.Request, name: str) -> str | None:
    """The text (or ``null``) that a JSON body holds under this name. Raises an HTTP error for any other body.

    Only a JSON body: a form of another site cannot send one without asking first.
    """
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="Send JSON.")
    try:
        sent: Any = json.loads(await body(request, 1 << 16))
    except (ValueError, RecursionError):
        sent = None
    if not isinstance(sent, dict) or set(sent) != {name} or not isinstance(sent[name], str | None):
        raise web.HTTPBadRequest(text=f"Send a JSON object with {name} alone, a text or null.")
    return sent[name]


def language(request: web.Request) -> str:
    """The language that the page asked for (``?lang=zh``), else English."""
    from .language import LANGUAGES

    asked = request.query.get("lang", "")
    return asked if asked in LANGUAGES else LANGUAGES[0]
