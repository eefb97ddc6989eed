"""What the page asks of runs: how they stand, when it is opened in the middle of one, and the previews they made."""

from __future__ import annotations

from aiohttp import web
from server import PromptServer

from .page import own_page_only
from .run_loras import register
from .run_status import kept

register()


@PromptServer.instance.routes.get("/headroom/runs")
@own_page_only
async def show_runs(request: web.Request) -> web.Response:
    """The newest message of each node that ran AI Toolkit since the server was started."""
    return web.json_response(kept())


@PromptServer.instance.routes.get("/headroom/runs/sample")
@own_page_only
async def show_sample(request: web.Request) -> web.StreamResponse:
    """A preview (``?run=<name>/run-0001&file=<its place below the run's output>``); 404 for anything else."""
    from ..headroom.run.store import Store
    from .places import places
    from .run_outputs import PICTURES, VIDEOS

    try:
        run = Store(places().runs).show(request.query.get("run", ""))
        file = (run.output / request.query.get("file", "")).resolve(strict=True)
    except (KeyError, OSError, ValueError):
        raise web.HTTPNotFound from None
    if not file.is_relative_to(run.output.resolve()) or file.suffix.lower() not in (*PICTURES, *VIDEOS):
        raise web.HTTPNotFound
    return web.FileResponse(file, headers={"Cache-Control": "private, max-age=3600"})
