"""The settings panel and the budget node's live line in the browser, in the frontend that ComfyUI brings and a newer one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_setup
from comfyui_browser import Page

from demo.comfyui import ComfyUI
from demo.environment import NEWER_FRONTEND, frontend_folder, python

pytestmark = [pytest.mark.comfyui, pytest.mark.browser]

TOKEN = "hf_" + "Zq7" * 11
FRONTENDS = [None, NEWER_FRONTEND]
every_frontend = pytest.mark.parametrize("frontend", FRONTENDS, ids=["own", NEWER_FRONTEND], scope="module")
# Text and what is behind it, of everything that our settings show: as a person with weak eyes would want them apart.
CONTRASTS = """() => {
    const parts = text => (text.match(/[\\d.]+/g) ?? [0, 0, 0]).map(Number);
    const opaque = ([r, g, b, a = 1], under) => [r, g, b].map((each, at) => each * a + under[at] * (1 - a));
    const behind = element => {
        const above = [];
        for (let each = element; each; each = each.parentElement) above.unshift(parts(getComputedStyle(each).backgroundColor));
        return above.reduce((under, colour) => opaque(colour.length === 4 || colour.some(Boolean) ? colour : [0, 0, 0, 0], under), [255, 255, 255]);
    };
    const light = colour => {
        const [r, g, b] = colour.map(each => (each / 255 <= 0.04045 ? each / 255 / 12.92 : ((each / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const seen = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
    return [...document.querySelectorAll(".headroom-setting p, .headroom-setting button, .headroom-setting dd, .headroom-setting summary")]
        .filter(each => each.checkVisibility() && each.textContent && !each.disabled)
        .map(each => {
            const under = behind(each);
            const [one, two] = [light(opaque(seen(getComputedStyle(each).color), under)), light(under)].sort((a, b) => b - a);
            return [each.textContent.slice(0, 40), (one + 0.05) / (two + 0.05)];
        });
}"""


@pytest.fixture(scope="module")
def source() -> Iterator[tiny_setup.Source]:
    with tiny_setup.Source().serving() as serving:
        yield serving


@pytest.fixture(scope="module")
def comfyui(frontend: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyUI]:
    if not python().exists():
        pytest.skip("a real ComfyUI; `python tests` installs it")
    if frontend and not frontend_folder(frontend).is_dir():
        pytest.skip(f"ComfyUI's frontend {frontend}; `python tests` downloads it")
    base = tmp_path_factory.mktemp("comfyui-settings")
    page = frontend_folder(frontend) if frontend else None
    with ComfyUI(base, python(), page, tiny_setup.surroundings(base)) as started:
        yield started


@pytest.fixture
def open_page(browser: Any, comfyui: ComfyUI) -> Iterator[Callable[..., Page]]:
    """ComfyUI's page, opened with these settings of ComfyUI's."""
    contexts = []

    def start(locale: str = "en", palette: str = "dark", nodes_2: bool = False) -> Page:
        contexts.append(browser.new_context(viewport={"width": 1500, "height": 1000}))
        page = Page(contexts[-1].new_page(), comfyui)
        page.set({"Comfy.Locale": locale, "Comfy.ColorPalette": palette, "Comfy.VueNodes.Enabled": nodes_2})
        page.listen()
        page.open()
        return page

    yield start
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()


def open_settings(page: Page) -> None:
    page.page.keyboard.press("Control+,")
    page.page.get_by_text("Headroom", exact=True).first.click()
    page.page.wait_for_selector(".headroom-setting")


def button(page: Page, name: str) -> Any:
    return page.page.get_by_role("button", name=name, exact=True)


def in_settings(page: Page, text: str, timeout: float = 30_000) -> None:
    page.page.locator(".headroom-setting").get_by_text(text).first.wait_for(timeout=timeout)


def toolkit(folder: Path) -> Path:
    for name in ("toolkit", "jobs", "venv/bin", "venv/Scripts"):
        (folder / name).mkdir(parents=True)
    program = "venv/Scripts/python.exe" if os.name == "nt" else "venv/bin/python"
    for name in ("run.py", "version.py", "venv/pyvenv.cfg", program):
        (folder / name).write_text("", encoding="utf-8")
    return folder


@every_frontend
def test_ai_toolkit_is_set_up_from_the_settings(page: Page, source: tiny_setup.Source, frontend: str | None) -> None:
    source.go_on.clear()
    kept = page.comfyui.base / "user" / "headroom.json"
    kept.write_text(json.dumps({"HEADROOM_AI_TOOLKIT_SOURCE": source.url}), encoding="utf-8")
    open_settings(page)
    in_settings(page, "AI Toolkit was not found on this server")
    in_settings(page, "Needs at least")
    page.shot(f"settings-empty-{frontend or 'own'}")
    button(page, "Set up AI Toolkit").click()
    in_settings(page, "Fetching AI Toolkit: 50 %")
    page.shot(f"settings-progress-{frontend or 'own'}")

    page.open()  # a page that is loaded again finds it going on
    open_settings(page)
    in_settings(page, "Fetching AI Toolkit: 50 %")
    button(page, "Stop").click()
    in_settings(page, "Stopped. What was done so far is kept.")
    source.go_on.set()
    button(page, "Go on with the setup").click()
    in_settings(page, f"Done: AI Toolkit {tiny_setup.VERSION} was set up.", 120_000)
    in_settings(page, f"AI Toolkit {tiny_setup.VERSION} is ready.", 60_000)
    assert button(page, "Set up AI Toolkit").count() == 0
    page.page.get_by_text("Everything that was found on this server").click()
    in_settings(page, "RAM:")
    page.shot(f"settings-ready-{frontend or 'own'}")
    assert page.problems == []


@every_frontend
def test_a_folder_is_chosen_by_keyboard_and_judged(page: Page, tmp_path: Path) -> None:
    open_settings(page)
    field = page.page.get_by_label("Use this folder").first
    field.fill("/etc")
    field.press("Enter")
    in_settings(page, "/etc is not AI Toolkit's folder")
    folder = toolkit(tmp_path / "ai-toolkit")
    field.fill(str(folder))
    field.press("Enter")
    in_settings(page, "AI Toolkit is here, but it cannot run yet.")
    assert page.page.locator(".headroom-setting >> text=is not AI Toolkit's folder").count() == 0
    forget = button(page, "Forget this folder")
    forget.focus()
    page.page.keyboard.press("Enter")
    forget.wait_for(state="hidden")
    assert field.input_value() == ""
    assert [each for each in page.problems if "400" not in each] == []


@every_frontend
def test_a_token_goes_in_and_never_comes_out(page: Page, frontend: str | None) -> None:
    open_settings(page)
    in_settings(page, "No token is set.")
    field = page.page.locator(".headroom-setting input[type=password]")
    field.fill("my password")
    field.press("Enter")
    in_settings(page, "That is not a Hugging Face token.")
    field.fill(TOKEN)
    field.press("Enter")
    in_settings(page, "A token is set.")
    page.shot(f"settings-token-{frontend or 'own'}")
    assert field.input_value() == ""
    page.open()
    open_settings(page)
    in_settings(page, "A token is set.")
    everything = page.page.content() + page.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    everything += json.dumps(page.comfyui.call("/settings")[1]) + json.dumps(page.workflow())
    assert "headroom-setting" in everything and TOKEN not in everything
    assert "Headroom." not in json.dumps(page.comfyui.call("/settings")[1]), "ComfyUI keeps nothing of ours"
    button(page, "Remove the token").click()
    in_settings(page, "No token is set.")
    assert [each for each in page.problems if "400" not in each] == []


@every_frontend
@pytest.mark.parametrize("palette", ["dark", "light"])
def test_it_can_be_read_in_the_dark_and_in_the_light(
    open_page: Callable[..., Page], frontend: str | None, palette: str
) -> None:
    page = open_page(palette=palette)
    open_settings(page)
    field = page.page.get_by_label("Use this folder").first
    field.fill("x")
    field.press("Enter")
    in_settings(page, "Give the whole path")
    page.page.wait_for_function("!document.querySelector('.headroom-setting button:disabled')")
    page.shot(f"settings-{palette}-{frontend or 'own'}")
    contrasts = page.page.evaluate(CONTRASTS)
    assert len(contrasts) > 8
    assert [each for each in contrasts if each[1] < 4.5] == []


@pytest.mark.parametrize("frontend", [NEWER_FRONTEND], scope="module")
def test_the_settings_speak_chinese(open_page: Callable[..., Page], frontend: str) -> None:
    page = open_page(locale="zh")
    open_settings(page)
    in_settings(page, "重新检查")
    for name in ("检查结果", "AI Toolkit 目录", "安装 AI Toolkit", "Hugging Face 令牌"):
        assert page.page.get_by_text(name, exact=True).count(), name
    page.shot("settings-chinese")
    assert page.problems == []


GPU = {"index": 0, "uuid": "GPU-5b2c8f0e", "name": "NVIDIA L40S", "total_gib": 44.99, "free_gib": 30.0, "card": None}
WITHIN_ITS_NODE = (
    "body => body.getBoundingClientRect().bottom <= body.closest('.headroom-panel').getBoundingClientRect().bottom + 1"
)
NODE = {
    "now": "NVIDIA L40S: 30 GiB free now.",
    "budget": "Budget: 44 GiB.",
    "warning": "Less is free.",
    "used_by": ["In use by x"],
}


@pytest.mark.parametrize(
    ("frontend", "nodes_2"),
    [(None, False), (NEWER_FRONTEND, True)],
    ids=["own-classic", "newer-nodes2"],
    scope="module",
)
def test_a_budget_node_shows_its_card_while_it_can_be_seen(
    open_page: Callable[..., Page], frontend: str | None, nodes_2: bool
) -> None:
    page = open_page(nodes_2=nodes_2)
    page.add("HeadroomMemoryBudget")
    page.page.wait_for_selector(".headroom-card >> text=NVIDIA GPU")  # the server's own answer: there is none here
    page.shot(f"budget-no-gpu-{frontend or 'own'}")
    assert page.page.locator(".headroom-body").evaluate(WITHIN_ITS_NODE)
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        route.fulfill(json={"driver": "570", "gpus": [GPU], "notes": [], "node": NODE})

    page.page.route("**/headroom/gpus*", answer)
    page.page.wait_for_selector(".headroom-card >> text=Budget: 44 GiB.")
    page.shot(f"budget-{frontend or 'own'}")
    assert page.page.locator(".headroom-body").evaluate(WITHIN_ITS_NODE)
    set_widget = "([name, value]) => { window.app.graph.nodes[0].widgets.find(w => w.name === name).value = value; }"
    assert "0: NVIDIA L40S" in page.page.evaluate(
        "window.app.graph.nodes[0].widgets.find(w => w.name === 'gpu').options.values"
    )
    page.page.evaluate(set_widget, ["vram", 12.5])
    with page.page.expect_request("**/headroom/gpus*vram=12.5*"):
        pass
    page.page.evaluate("window.app.canvas.ds.offset[0] -= 5000; window.app.graph.setDirtyCanvas(true, true)")
    page.page.wait_for_function(
        "!document.querySelector('.headroom-card')?.checkVisibility() || "
        "document.querySelector('.headroom-card').getBoundingClientRect().right < 0"
    )
    page.page.wait_for_timeout(600)
    before = len(asked)
    page.page.wait_for_timeout(3800)
    assert len(asked) == before, "nobody sees it, so nobody asks"
    page.page.evaluate("window.app.canvas.ds.offset[0] += 5000; window.app.graph.setDirtyCanvas(true, true)")
    with page.page.expect_request("**/headroom/gpus*"):
        pass
    page.page.evaluate("window.app.graph.clear()")
    page.page.wait_for_timeout(600)
    before = len(asked)
    page.page.wait_for_timeout(3800)
    assert len(asked) == before, "a node that is gone asks nothing"
    assert page.problems == []
