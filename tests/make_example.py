"""Make the example workflow, its picture and its API form anew, in the real page: `python tests/make_example.py`.

Run it with the environment's Python (`.cache/venv-*/bin/python`) after a node's inputs changed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import chromium  # noqa: E402
from comfyui_browser import Page  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from demo.comfyui import ComfyUI  # noqa: E402
from demo.environment import python  # noqa: E402

NAME = "Paste a failure, get the corrected job"
NOTE = """\
# A failed AI Toolkit run goes in, the corrected job comes out

1. **Paste log…** on the classifier: the log of the run that died.
2. **Paste job…**: the text of *Show Advanced* in AI Toolkit's job editor. Without it, the settings that AI Toolkit prints in \
its log are used.
3. Press **Run**. Read what failed and what changes, then **Copy YAML** back into the editor.

It starts with an example, so that you can press Run at once. No GPU is needed.
What you paste is kept on this server with tokens masked; it is not in this workflow.

中文：在诊断节点上点击 **粘贴日志…** 和 **粘贴任务…**，点击运行，查看原因与修改，再点 **复制 YAML** 粘贴回任务编辑器。
"""
BUILD = """
note => {
    const graph = window.app.graph;
    graph.clear();
    graph.id = "1f7c1c0e-6c1e-4b0b-9b1f-5d0e7a3b2c41";
    const put = (type, pos, size) => {
        const node = window.LiteGraph.createNode(type);
        node.pos = pos;
        graph.add(node);
        node.setSize(size);
        return node;
    };
    const set = (node, values) => node.widgets.forEach(w => { if (w.name in values) w.value = values[w.name]; });
    const text = put("MarkdownNote", [40, 80], [360, 420]);
    text.title = "How to use this";
    text.widgets[0].value = note;
    const classifier = put("HeadroomOOMClassifier", [440, 80], [600, 840]);
    set(classifier, {log: "example: train_step_out_of_memory.log", job_file: "example: train_step_out_of_memory.yaml",
                     strength: "safe"});
    const save = put("HeadroomSaveJob", [1090, 80], [540, 640]);
    classifier.connect(0, save, 0);
}
"""


def main() -> None:
    """Build the graph in the page, run it, and write what the page serializes and shows."""
    with (
        tempfile.TemporaryDirectory() as base,
        ComfyUI(Path(base), python()) as comfyui,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium.program(), args=chromium.FLAGS)
        page = Page(browser.new_page(viewport={"width": 1720, "height": 1060}), comfyui)
        page.open()
        page.page.evaluate(BUILD, NOTE)
        page.page.evaluate(
            "const canvas = window.app.canvas; canvas.ds.scale = 0.95; canvas.ds.offset = [50, 90]; canvas.setDirty(true, true)"
        )
        workflow = page.workflow()
        for node in workflow["nodes"]:
            if node["type"].startswith("Headroom"):
                node["properties"] |= {"cnr_id": "comfyui-headroom", "ver": "0.1.0"}
        prompt = page.page.evaluate("window.app.graphToPrompt().then(made => made.output)")
        page.queue()
        page.page.wait_for_selector(".headroom-verdict >> text=Saved", timeout=60_000)
        page.page.wait_for_timeout(1000)
        picture = ROOT / "example_workflows" / f"{NAME}.jpg"
        page.page.keyboard.press("Escape")
        around = {"x": 72, "y": 128, "width": 1590, "height": 860}
        page.page.screenshot(path=str(picture), type="jpeg", quality=80, clip=around)
        page.shot("example")
        browser.close()
    written = json.dumps(workflow, ensure_ascii=False, indent=2) + "\n"
    (ROOT / "example_workflows" / f"{NAME}.json").write_text(written, encoding="utf-8")
    written = json.dumps(prompt, ensure_ascii=False, indent=2) + "\n"
    (ROOT / "demo" / "paste_a_failure.api.json").write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
