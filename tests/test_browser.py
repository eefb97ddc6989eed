"""The page: the example runs and is read on its nodes, pasting works, and no pasted text is in what is saved."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from comfyui_browser import Page

from demo.environment import NEWER_FRONTEND, ROOT

pytestmark = [pytest.mark.comfyui, pytest.mark.browser]

EXAMPLE = "Paste a failure, get the corrected job"
SAMPLES = ROOT / "example_workflows" / "samples"
NODES = ["HeadroomLoadJob", "HeadroomOOMClassifier", "HeadroomSaveJob", "HeadroomShowDiagnosis"]
# Frontend (None: the one that ComfyUI brings) and whether nodes are drawn the newer way.
PAGES = [(None, False), (None, True), (NEWER_FRONTEND, False), (NEWER_FRONTEND, True)]
every_page = pytest.mark.parametrize(
    ("frontend", "nodes_2"),
    PAGES,
    ids=[f"{frontend or 'own'}-{'nodes2' if nodes_2 else 'classic'}" for frontend, nodes_2 in PAGES],
)
WITHIN_ITS_NODE = (
    "element => { const own = element.getBoundingClientRect(), node = element.parentElement.getBoundingClientRect();"
    " return own.bottom <= node.bottom + 1 && own.right <= node.right + 1; }"
)
Open = Callable[..., Page]


def example() -> dict[str, Any]:
    return json.loads((ROOT / "example_workflows" / f"{EXAMPLE}.json").read_text(encoding="utf-8"))


def name_of(frontend: str | None, nodes_2: bool) -> str:
    return f"{frontend or 'own'}-{'nodes2' if nodes_2 else 'classic'}"


def paste(page: Page, kind: str, text: str) -> None:
    """What a person does: press the button, put text into the field, press Use this text."""
    labels = {"log": "Paste log…", "job": "Paste job…"}
    page.page.get_by_role("button", name=labels[kind]).first.click()
    page.page.locator(".headroom-dialog textarea").fill(text)
    page.page.get_by_role("button", name="Use this text").click()


def widget(page: Page, node: str, name: str) -> Any:
    return page.page.evaluate(
        "([type, name]) => window.app.graph.nodes.find(n => n.type === type).widgets.find(w => w.name === name).value",
        [node, name],
    )


@every_page
@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "example_workflows").glob("*.json")))
def test_an_example_opens_whole_and_keeps_its_settings(
    open_page: Open, frontend: str | None, nodes_2: bool, name: str
) -> None:
    written = json.loads((ROOT / "example_workflows" / f"{name}.json").read_text(encoding="utf-8"))
    page = open_page(frontend, nodes_2=nodes_2)
    page.load(written)
    missing = page.page.evaluate(
        "window.app.graph.nodes.filter(n => n.has_errors || !window.LiteGraph.registered_node_types[n.type]).length"
    )
    assert missing == 0
    page.page.wait_for_timeout(500)
    page.shot(f"opened-{name[:5]}-{name_of(frontend, nodes_2)}")

    def values(workflow: dict[str, Any]) -> dict[int, Any]:
        return {int(node["id"]): node.get("widgets_values") for node in workflow["nodes"]}

    assert values(page.workflow()) == values(written)
    assert page.problems == []


@every_page
def test_the_example_runs_and_is_read_on_its_nodes(open_page: Open, frontend: str | None, nodes_2: bool) -> None:
    page = open_page(frontend, nodes_2=nodes_2)
    page.load(example())
    missing = page.page.evaluate(
        "window.app.graph.nodes.filter(n => n.has_errors || !window.LiteGraph.registered_node_types[n.type]).length"
    )
    assert missing == 0
    body = page.page.locator(".headroom-body").first
    before = body.bounding_box()["height"]
    page.queue()
    page.page.wait_for_selector(".headroom-verdict >> text=Safe to retry", timeout=60_000)
    page.page.wait_for_selector(".headroom-verdict >> text=Saved: headroom/", timeout=60_000)
    page.page.wait_for_timeout(500)
    page.shot(f"example-{name_of(frontend, nodes_2)}")
    changes = page.page.locator(".headroom-change-card").all_inner_texts()
    assert any("train.batch_size: 4 → 1" in change for change in changes)
    assert all(re.search(r"\bwhere\b[\s\S]+\bwhy\b[\s\S]+\bprice\b", change) for change in changes)
    assert page.page.locator(".headroom-gone").count() and page.page.locator(".headroom-new").count()
    assert abs(body.bounding_box()["height"] - before) < 40, "the node keeps its height"
    assert body.evaluate("element => element.scrollHeight > element.clientHeight"), "the panel scrolls inside it"
    assert body.evaluate(WITHIN_ITS_NODE)
    assert page.problems == []


def test_the_api_form_of_the_example_is_what_the_page_makes_of_it(open_page: Open) -> None:
    page = open_page()
    page.load(example())
    made = json.loads(page.page.evaluate("window.app.graphToPrompt().then(made => JSON.stringify(made.output))"))
    kept = json.loads((ROOT / "demo" / "paste_a_failure.api.json").read_text(encoding="utf-8"))
    assert made == kept


@every_page
def test_pasting_a_log_and_a_job_gives_the_corrected_job(open_page: Open, frontend: str | None, nodes_2: bool) -> None:
    page = open_page(frontend, nodes_2=nodes_2)
    page.add("HeadroomOOMClassifier")
    page.page.wait_for_timeout(500)
    page.shot(f"empty-{name_of(frontend, nodes_2)}")
    log = (SAMPLES / "preview_out_of_memory.log").read_text(encoding="utf-8")
    job = (SAMPLES / "preview_out_of_memory.yaml").read_text(encoding="utf-8")
    paste(page, "log", log)
    page.page.wait_for_selector(".headroom-status >> text=lines pasted")
    paste(page, "job", job.replace("/workspace/", "/home/alice/"))
    page.page.wait_for_selector(".headroom-status >> text=2 lines masked")
    page.shot(f"pasted-{name_of(frontend, nodes_2)}")
    assert re.fullmatch(r"headroom/[0-9a-f]{16}\.log", widget(page, "HeadroomOOMClassifier", "log"))
    assert re.fullmatch(r"headroom/[0-9a-f]{16}\.masked\.yaml", widget(page, "HeadroomOOMClassifier", "job_file"))
    page.queue()
    page.page.wait_for_selector(".headroom-verdict >> text=Safe to retry", timeout=60_000)
    page.shot(f"read-{name_of(frontend, nodes_2)}")
    page.page.get_by_role("button", name="Copy YAML").first.click()
    page.page.get_by_role("button", name="Copied").first.wait_for()
    copied = page.page.evaluate("navigator.clipboard.readText()")
    assert "# Second try: trains lighter" in copied
    assert "folder_path: /home/alice/datasets/cat" in copied, "what was masked comes back when it is copied"
    assert "width: 1536" not in copied
    assert page.problems == []


@pytest.mark.parametrize("nodes_2", [False, True], ids=["classic", "nodes2"])
def test_no_pasted_text_is_in_the_workflow_that_is_saved(open_page: Open, nodes_2: bool) -> None:
    page = open_page(nodes_2=nodes_2)
    page.load(example())
    log = (SAMPLES / "preview_out_of_memory.log").read_text(encoding="utf-8")
    job = (SAMPLES / "preview_out_of_memory.yaml").read_text(encoding="utf-8")
    paste(page, "log", f"Zq7 stands nowhere else\n{log}")
    page.page.wait_for_selector(".headroom-status >> text=lines pasted")
    paste(page, "job", job)
    page.queue()
    page.page.wait_for_selector(".headroom-change-card", timeout=60_000)
    page.page.wait_for_selector(".headroom-verdict >> text=Saved", timeout=60_000)
    made = page.page.evaluate("window.app.graphToPrompt().then(made => JSON.stringify(made))")
    everything = json.dumps(page.workflow()) + made + page.page.evaluate("JSON.stringify({...localStorage})")
    assert "headroom/" in everything, "the name is in it"
    for text in ("Zq7", "CUDA out of memory", "Second try", "cat_lora_preview", "Tried to allocate"):
        assert text not in everything, text
    values = [node.get("widgets_values") for node in page.workflow()["nodes"] if node["type"] == "HeadroomSaveJob"]
    assert values == [[""]]


def test_a_wrong_job_is_refused_in_the_dialog_with_its_line(open_page: Open) -> None:
    page = open_page()
    page.add("HeadroomLoadJob")
    paste(page, "job", "job: extension\nconfig:\n  name: [x\n")
    page.page.wait_for_selector(".headroom-problem:not(:empty)")
    assert "line" in page.page.locator(".headroom-problem").inner_text()
    page.shot("refused")
    page.page.get_by_role("button", name="Cancel", exact=True).click()
    assert page.page.locator(".headroom-dialog").count() == 0
    assert page.problems == [] or all("400" in problem for problem in page.problems)


def test_a_file_can_be_given_instead_of_text(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    page.add("HeadroomOOMClassifier")
    page.page.get_by_role("button", name="Paste log…").click()
    page.page.locator(".headroom-dialog input[type=file]").set_input_files(SAMPLES / "train_step_out_of_memory.log")
    page.page.wait_for_selector(".headroom-status >> text=lines pasted")
    assert widget(page, "HeadroomOOMClassifier", "log").startswith("headroom/")


def test_the_clipboard_can_be_pasted_with_one_button(open_page: Open) -> None:
    page = open_page()
    page.add("HeadroomOOMClassifier")
    page.page.evaluate("navigator.clipboard.writeText('RuntimeError: CUDA out of memory.')")
    page.page.get_by_role("button", name="Paste log…").click()
    page.page.get_by_role("button", name="From clipboard").click()
    page.page.wait_for_function("document.querySelector('.headroom-dialog textarea').value.includes('CUDA')")
    page.page.keyboard.press("Escape")
    assert page.page.locator(".headroom-dialog").count() == 0
    assert page.page.evaluate("window.app.graph.nodes.length") == 1


def test_keys_in_the_dialog_do_not_reach_the_canvas(open_page: Open) -> None:
    page = open_page()
    page.add("HeadroomOOMClassifier")
    page.page.evaluate("window.app.canvas.selectNode?.(window.app.graph.nodes[0])")
    page.page.get_by_role("button", name="Paste log…").click()
    page.page.keyboard.type("x")
    page.page.keyboard.press("Delete")
    page.page.keyboard.press("Control+a")
    page.page.keyboard.press("Backspace")
    assert page.page.evaluate("window.app.graph.nodes.length") == 1


def test_a_loaded_job_shows_its_settings(open_page: Open) -> None:
    page = open_page()
    page.add("HeadroomLoadJob")
    page.page.evaluate(
        "window.app.graph.nodes[0].widgets.find(w => w.name === 'job_file').value"
        " = 'example: train_step_out_of_memory.yaml'"
    )
    page.queue()
    page.page.wait_for_selector(".headroom-facts-table", timeout=60_000)
    page.shot("loaded-job")
    assert "train.batch_size" in page.page.locator(".headroom-facts-table").inner_text()
    assert page.problems == []


def test_switching_to_another_workflow_and_back_keeps_the_report(open_page: Open) -> None:
    page = open_page()
    page.load(example())
    page.queue()
    page.page.wait_for_selector(".headroom-change-card", timeout=60_000)
    kept = page.workflow()
    page.add("HeadroomLoadJob")
    assert page.page.locator(".headroom-change-card").count() == 0
    page.load(kept)
    page.page.wait_for_selector(".headroom-change-card")


def test_the_saved_job_can_be_downloaded(open_page: Open) -> None:
    page = open_page()
    page.load(example())
    page.queue()
    page.page.wait_for_selector(".headroom-verdict >> text=Saved", timeout=60_000)
    with page.page.expect_download() as download:
        page.page.get_by_role("link", name="Download").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert "batch_size: 1" in text


def test_values_stay_on_their_widgets_when_a_workflow_is_loaded_again(open_page: Open) -> None:
    page = open_page()
    page.load(example())
    first = page.workflow()
    page.load(first)
    again = page.workflow()
    values = [[node["widgets_values"] for node in workflow["nodes"]] for workflow in (first, again)]
    assert values[0] == values[1]


@pytest.mark.parametrize("nodes_2", [False, True], ids=["classic", "nodes2"])
def test_the_pack_speaks_chinese_on_a_newer_frontend(open_page: Open, nodes_2: bool) -> None:
    page = open_page(NEWER_FRONTEND, nodes_2=nodes_2, locale="zh")
    page.load(example())
    page.queue()
    page.page.wait_for_selector(".headroom-verdict >> text=可直接重试", timeout=60_000)
    page.page.wait_for_timeout(500)
    page.shot(f"chinese-{name_of(NEWER_FRONTEND, nodes_2)}")
    text = page.page.locator(".headroom-panel").first.inner_text()
    assert "粘贴日志…" in text and "批大小" in text
    titles = page.page.evaluate(
        "window.app.graph.nodes.map(n => window.LiteGraph.registered_node_types[n.type]?.title)"
    )
    assert "AI Toolkit OOM 诊断" in titles
    assert page.problems == []
