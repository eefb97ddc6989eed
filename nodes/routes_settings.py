"""Addresses of the settings panel: what is set and found here, AI Toolkit's folder and setup, the Hugging Face token.

ComfyUI has no login, so whoever reaches its page reaches these. Therefore no answer ever holds the token, and a page
can choose no program: only a folder that is an AI Toolkit with its own Python, and the setup of the commit we pin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web
from server import PromptServer

from .page import language, own_page_only, text_in
from .recent import Recent

if TYPE_CHECKING:
    from ..headroom.doctor import Checkup
    from .setting_up import SettingUp

SOURCE = "HEADROOM_AI_TOOLKIT_SOURCE"
CHECKUP_SECONDS = 5.0

routes = PromptServer.instance.routes


def _examined() -> Checkup:
    from ..headroom.doctor import examine
    from .places import places, settings_file

    return examine(settings_file(), places().runs)


checkup = Recent(_examined, CHECKUP_SECONDS)


@cache
def setting_up() -> SettingUp:
    """This server's setup."""
    from ..headroom import places
    from ..headroom.run.locate import FOLDER, Toolkit
    from ..headroom.settings import write
    from ..headroom.setup import set_up
    from .places import setting, settings_file
    from .setting_up import SettingUp

    def work(tell: Any, stop: Any) -> Toolkit:
        return set_up(places.tools(), setting(SOURCE), None, tell, stop)

    def use_it() -> None:
        write(settings_file(), FOLDER, None)  # another folder, chosen before, would go first
        checkup.forget()

    return SettingUp(work, use_it)


@routes.get("/headroom/settings")
async def show_settings(request: web.Request) -> web.Response:
    """What is set and by what: ``environment``, ``file`` or ``null``; of the token no more than that."""
    return web.json_response(await asyncio.to_thread(_shown, language(request)))


def _shown(lang: str) -> dict[str, Any]:
    from ..headroom.places import setting
    from ..headroom.report.wording import words
    from ..headroom.run.locate import FOLDER
    from ..headroom.settings import HF_TOKEN, DamagedSettings, SettingsError, read, set_by
    from .places import settings_file

    file = settings_file()
    shown: dict[str, Any] = {
        "ai_toolkit": {"folder": setting(FOLDER, file), "from": set_by(FOLDER, file)},
        "token": {"from": set_by(HF_TOKEN, file)},
    }
    try:
        read(file)
    except SettingsError as error:
        shown |= {"problem": words(error.sentence, lang), "damaged": isinstance(error, DamagedSettings)}
    return shown


@routes.post("/headroom/settings/ai_toolkit")
@own_page_only
async def choose_ai_toolkit(request: web.Request) -> web.Response:
    """Use the AI Toolkit in ``{"folder": …}``; with ``null``, the one that Headroom set up.

    Answers 400 with ``{"problem": …}`` for a folder that may not be chosen, and where the setting cannot be kept.
    """
    from ..headroom.run.choosing import chosen
    from ..headroom.run.locate import FOLDER

    text = await text_in(request, "folder")

    def choose() -> None:
        _keep(FOLDER, None if text is None else str(chosen(text, _written_by_pages())))

    return await _changed(choose, request)


@routes.post("/headroom/settings/token")
@own_page_only
async def keep_token(request: web.Request) -> web.Response:
    """Keep the Hugging Face token in ``{"token": …}``; answers as ``choose_ai_toolkit`` does, without the token."""
    from ..headroom.settings import HF_TOKEN, hugging_face_token

    text = await text_in(request, "token")
    return await _changed(lambda: _keep(HF_TOKEN, hugging_face_token(text or "")), request)


@routes.delete("/headroom/settings/token")
@own_page_only
async def remove_token(request: web.Request) -> web.Response:
    """Forget the Hugging Face token."""
    from ..headroom.settings import HF_TOKEN

    return await _changed(lambda: _keep(HF_TOKEN, None), request)


@routes.post("/headroom/settings/set_aside")
@own_page_only
async def set_settings_aside(request: web.Request) -> web.Response:
    """Move a settings file that cannot be read away, so that there can be a new one."""
    from ..headroom.settings import set_aside
    from .places import settings_file

    return await _changed(lambda: set_aside(settings_file()), request)


@routes.get("/headroom/doctor")
async def examine(request: web.Request) -> web.Response:
    """What ``doctor`` finds here, as data and as ``text``; at most a few seconds old."""
    from ..headroom.doctor import as_json, as_text

    found, lang = await checkup.get(), language(request)
    return web.json_response(as_json(found, lang) | {"text": as_text(found, lang)})


@routes.get("/headroom/setup")
async def show_setup(request: web.Request) -> web.Response:
    """How the setup stands and, where none is at work, what one would take (``needs``)."""
    return web.json_response(await asyncio.to_thread(_setup_shown, language(request)))


def _setup_shown(lang: str) -> dict[str, Any]:
    from ..headroom import places
    from ..headroom.contracts import say
    from ..headroom.report.wording import words
    from ..headroom.setup import SetupError
    from .places import setting
    from .setting_up import needs

    told = setting_up().told
    shown: dict[str, Any] = {"state": told.state, "version": told.version}
    if at := told.progress:
        step = words(say(f"setup.step.{at.step}"), lang)
        shown |= {"step": step, "done": at.done, "total": at.total, "detail": at.detail}
    if told.problem:
        shown["problem"] = words(told.problem, lang)
    if not told.runs:
        try:
            found = needs(places.tools(), setting(SOURCE))
            shown["needs"] = asdict(found) | {"folder": str(found.folder)}
        except SetupError as error:
            shown |= {"needs": None, "problem": words(error.sentence, lang)}
    return shown


@routes.post("/headroom/setup")
@own_page_only
async def start_setup(request: web.Request) -> web.Response:
    """Begin to set AI Toolkit up, unless that is going on. The page chooses nothing about it."""
    await asyncio.to_thread(lambda: setting_up().start())
    return await show_setup(request)


@routes.post("/headroom/setup/stop")
@own_page_only
async def stop_setup(request: web.Request) -> web.Response:
    """Stop the setup; what it has done so far is kept for the next one."""
    await asyncio.to_thread(lambda: setting_up().stop())
    return await show_setup(request)


def _keep(name: str, value: str | None) -> None:
    from ..headroom.settings import change
    from .places import settings_file

    change(settings_file(), name, value)


async def _changed(change: Callable[[], object], request: web.Request) -> web.Response:
    """Make a change; the answer is what is set then, or the problem."""
    from ..headroom.report.wording import words
    from ..headroom.run.locate import LocateError
    from ..headroom.settings import SettingsError

    lang = language(request)
    try:
        await asyncio.to_thread(change)
    except (LocateError, SettingsError) as error:
        return web.json_response({"problem": words(error.sentence, lang)}, status=400)
    checkup.forget()
    return web.json_response(await asyncio.to_thread(_shown, lang))


def _written_by_pages() -> list[Path]:
    """The folders that ComfyUI's page uploads to or writes in."""
    import folder_paths

    found = (
        folder_paths.get_input_directory(),
        folder_paths.get_output_directory(),
        folder_paths.get_temp_directory(),
        folder_paths.get_user_directory(),
    )
    return [Path(each) for each in found]
