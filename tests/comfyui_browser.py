"""Chromium on ComfyUI's page, with every message of ours on its console kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chromium
import pytest

from demo.comfyui import PACK, ComfyUI

SCREENSHOTS = Path(__file__).resolve().parent.parent / ".cache" / "screenshots"
READY = (
    "!!(window.app?.vueAppReady && window.app?.extensionManager && window.LiteGraph?.registered_node_types?.KSampler)"
)


@dataclass
class Page:
    """ComfyUI in the browser: Playwright's page and the console messages that are ours."""

    page: Any
    comfyui: ComfyUI
    problems: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Keep errors and warnings that name our extension, from the console and uncaught."""

        def ours(text: str) -> bool:
            # ComfyUI's own page asks the registry for a workflow's packs; the servers of the tests do not let it.
            if "api.comfy.org" in text:
                return False
            return f"/extensions/{PACK}" in text or "headroom" in text.lower()

        def heard(message: Any) -> None:
            where = (message.location or {}).get("url") or ""
            if message.type in ("error", "warning") and ours(f"{message.text} {where}"):
                self.problems.append(f"{message.type}: {message.text} ({where})")

        def thrown(error: Any) -> None:
            if ours(str(getattr(error, "stack", None) or error)):
                self.problems.append(f"uncaught: {error}")

        self.page.on("console", heard)
        self.page.on("pageerror", thrown)

    def open(self) -> None:
        """Load the page and wait until ComfyUI is ready."""
        self.page.goto(self.comfyui.url)
        self.page.wait_for_function(READY, timeout=60_000)
        self.page.wait_for_timeout(1000)

    def set(self, settings: dict[str, Any]) -> None:
        """Change ComfyUI's settings; they live on the server, and a page reads them when it is opened."""
        self.comfyui.call("/settings", settings)

    def load(self, workflow: dict[str, Any]) -> None:
        """Open a workflow."""
        self.page.evaluate("workflow => window.app.loadGraphData(workflow)", workflow)
        self.page.wait_for_timeout(500)

    def add(self, node_type: str) -> int:
        """Put one node on an empty graph; returns its id."""
        return self.page.evaluate(
            """type => {
                window.app.graph.clear();
                const node = window.LiteGraph.createNode(type);
                node.pos = [80, 120];
                window.app.graph.add(node);
                return Number(node.id);
            }""",
            node_type,
        )

    def queue(self) -> None:
        """Press Run."""
        self.page.evaluate("window.app.queuePrompt(0)")

    def workflow(self) -> dict[str, Any]:
        """What saving the workflow would write."""
        # As text: what is undefined in the page is absent in a file, and would come over as null.
        return json.loads(self.page.evaluate("JSON.stringify((window.app.rootGraph ?? window.app.graph).serialize())"))

    def shot(self, name: str) -> Path:
        """A picture of the page, kept where a person can look at it."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.page.screenshot(path=str(path))
        return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright; `python tests` installs it")
    program = chromium.program()
    if program is None:
        pytest.skip("Chromium or Chrome; install one, or name it in HEADROOM_BROWSER")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=program, headless=True, args=chromium.FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def pages(browser: Any, serve: Callable[[str | None], ComfyUI]) -> Iterator[Callable[..., Page]]:
    """A page for each way of showing ComfyUI, opened once a file: open pages go on drawing, and slow what comes after."""
    opened: dict[tuple[str | None, bool, str], tuple[Any, Page]] = {}

    def start(frontend: str | None, nodes_2: bool, locale: str) -> Page:
        way = (frontend, nodes_2, locale)
        if way not in opened:
            context = browser.new_context(viewport={"width": 1700, "height": 1050}, accept_downloads=True)
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            page = Page(context.new_page(), serve(frontend))
            page.set({"Comfy.VueNodes.Enabled": nodes_2, "Comfy.Locale": locale})
            page.listen()
            page.open()
            opened[way] = (context, page)
        return opened[way][1]

    yield start
    for context, _ in opened.values():
        context.close()


@pytest.fixture
def open_page(pages: Callable[..., Page]) -> Callable[..., Page]:
    """ComfyUI's page with an empty graph; ``nodes_2``: the newer way of drawing nodes, ``locale``: the language."""

    def start(frontend: str | None = None, *, nodes_2: bool = False, locale: str = "en") -> Page:
        page = pages(frontend, nodes_2, locale)
        page.page.bring_to_front()
        page.page.evaluate("document.querySelectorAll('.headroom-dialog').forEach(each => each.remove())")
        page.page.evaluate("window.app.graph.clear()")
        page.problems.clear()
        return page

    return start
