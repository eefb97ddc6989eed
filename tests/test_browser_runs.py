"""A run seen in the browser: the status line while it goes on, after a reload, and what stands on the node at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from comfyui_browser import Page
from graph_server import Graphs

pytestmark = [pytest.mark.comfyui, pytest.mark.browser]
BUILD = """
({nodes, links, first}) => {
    const graph = window.app.graph;
    graph.clear();
    graph.id = crypto.randomUUID();
    const made = nodes.map(({type, pos, values}, at) => {
        const node = window.LiteGraph.createNode(type);
        node.id = first + at;
        node.pos = pos;
        graph.add(node);
        for (const widget of node.widgets ?? []) if (widget.name in values) widget.value = values[widget.name];
        return node;
    });
    for (const [from, output, to, input] of links)
        made[from].connect(output, made[to], made[to].inputs.findIndex((each) => each.name === input));
    const canvas = window.app.canvas;
    canvas.ds.scale = 0.65;
    canvas.ds.offset = [120, 160];
    canvas.setDirty(true, true);
    return made.map((node) => Number(node.id));
}
"""
NOW = ".headroom-now"
_first_ids = count(100, 100)
SLOWEST = 90_000


@pytest.fixture(scope="module")
def run_pages(browser: Any, standin_graphs: Graphs) -> Iterator[Callable[[bool], Page]]:
    """The page of a ComfyUI that has the stand-in, with nodes drawn either way."""
    opened: dict[bool, tuple[Any, Page]] = {}

    def start(nodes_2: bool) -> Page:
        if nodes_2 not in opened:
            context = browser.new_context(viewport={"width": 1700, "height": 1050})
            page = Page(context.new_page(), standin_graphs.comfyui)
            page.set({"Comfy.VueNodes.Enabled": nodes_2})
            page.listen()
            page.open()
            opened[nodes_2] = (context, page)
        page = opened[nodes_2][1]
        page.page.bring_to_front()  # a page behind another is not drawn
        return page

    yield start
    for context, _ in opened.values():
        context.close()


def build(page: Page, nodes: list[dict[str, Any]], links: list[list[Any]]) -> list[int]:
    """A graph of these nodes and links (from, output, to, input).

    Its node ids are new: Nodes 2.0 keeps showing a node of the graph before under an id that is used again.
    """
    return page.page.evaluate(BUILD, {"nodes": nodes, "links": links, "first": next(_first_ids)})


def node(kind: str, at: tuple[int, int], **values: Any) -> dict[str, Any]:
    return {"type": kind, "pos": list(at), "values": values}


@pytest.mark.parametrize("nodes_2", [False, True], ids=["classic", "nodes_2"])
def test_the_status_line_shows_the_run_and_is_there_again_after_a_reload(
    run_pages: Callable[[bool], Page], standin_graphs: Graphs, nodes_2: bool
) -> None:
    page = run_pages(nodes_2)
    job = standin_graphs.job()
    build(page, [node("HeadroomLoadJob", (0, 0), job_file=job), node("HeadroomTrain", (520, 0))], [[0, 0, 1, "job"]])
    workflow = page.workflow()
    with standin_graphs.held("sample"):
        page.queue()
        page.page.wait_for_selector(f"{NOW}:has-text('Making previews')", timeout=SLOWEST)
        assert "step 3 of 4" in page.page.inner_text(NOW)
        assert "The queue waits while this runs" in page.page.inner_text(f".headroom-live:has({NOW})")
        page.page.wait_for_function("document.querySelector('.headroom-live .headroom-sample')?.naturalWidth > 0")
        assert "Connect a job" not in page.page.inner_text(f".headroom-panel:has({NOW})")
        page.shot(f"train_running_{'nodes_2' if nodes_2 else 'classic'}")
        page.open()
        page.load(workflow)
        page.page.wait_for_selector(f"{NOW}:has-text('step 3 of 4')", timeout=SLOWEST)
        standin_graphs.comfyui.call("/interrupt", {})
        page.page.wait_for_selector(f"{NOW}:has-text('Cancelled')", timeout=SLOWEST)
    page.queue()
    page.page.wait_for_selector(".headroom-summary:has-text('Trained: all 4 steps')", timeout=SLOWEST)
    page.page.wait_for_function("document.querySelector('.headroom-body .headroom-sample')?.naturalWidth > 0")
    assert not page.page.query_selector(NOW)
    page.shot(f"train_finished_{'nodes_2' if nodes_2 else 'classic'}")
    page.open()
    page.load(workflow)
    page.page.wait_for_selector(".headroom-summary:has-text('Trained: all 4 steps')", timeout=SLOWEST)
    assert page.problems == []


@pytest.mark.parametrize("nodes_2", [False, True], ids=["classic", "nodes_2"])
def test_every_node_that_runs_shows_what_came_of_it(
    run_pages: Callable[[bool], Page], standin_graphs: Graphs, nodes_2: bool
) -> None:
    page = run_pages(nodes_2)
    job = standin_graphs.job()
    nodes = [
        node("HeadroomLoadJob", (0, 0), job_file=job),
        node("HeadroomMemoryBudget", (0, 520), vram=8, unit="GiB"),
        node("HeadroomLoadCheck", (500, 0)),
        node("HeadroomTrain", (960, 0)),
        node("HeadroomPreviewSample", (1460, 0), prompts="a dog\na cow"),
        node("HeadroomApplyLoRA", (500, 560)),
    ]
    links = [
        [0, 0, 2, "job"],
        [1, 0, 2, "budget"],
        [2, 0, 3, "job"],
        [1, 0, 3, "budget"],
        [3, 2, 4, "run"],
        [3, 2, 5, "run"],
    ]
    build(page, nodes, links)
    page.queue()
    page.page.wait_for_selector(".headroom-card >> text=at most 8 GiB of the card", timeout=SLOWEST)
    for text in ("It loads", "Trained: all 4 steps", "makes its first previews"):
        page.page.wait_for_selector(f".headroom-summary:has-text('{text}')", timeout=SLOWEST)
    page.page.wait_for_timeout(500)
    page.shot(f"run_nodes_{'nodes_2' if nodes_2 else 'classic'}")
    build(
        page,
        [
            node("HeadroomLoadJob", (0, 0), job_file=standin_graphs.job(heavy=True)),
            node("HeadroomMemoryBudget", (0, 520), vram=0.011, unit="GiB"),
            node("HeadroomTrain", (500, 0)),
            node("HeadroomOOMClassifier", (1020, 0)),
        ],
        [[0, 0, 2, "job"], [1, 0, 2, "budget"], [2, 2, 3, "run"]],
    )
    page.queue()
    page.page.wait_for_selector(".headroom-summary:has-text('It failed')", timeout=SLOWEST)
    page.page.wait_for_selector(".headroom-badge", timeout=SLOWEST)
    page.shot(f"train_failed_{'nodes_2' if nodes_2 else 'classic'}")
    assert "Connect run to the AI Toolkit OOM Classifier" in page.page.inner_text(".headroom-verdict.headroom-stop")
    assert page.problems == []
