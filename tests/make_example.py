"""Make the example workflows, their pictures and API forms anew, in the real page: `python tests/make_example.py`.

Run it with the environment's Python (`.cache/venv-*/bin/python`) after a node's inputs changed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import chromium  # noqa: E402
from comfyui_browser import Page  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from demo.comfyui import ComfyUI  # noqa: E402
from demo.environment import python  # noqa: E402

PUT = """
const put = (type, pos, size) => {
    const node = window.LiteGraph.createNode(type);
    node.pos = pos;
    window.app.graph.add(node);
    node.setSize(size);
    return node;
};
const set = (node, values) => node.widgets.forEach(w => { if (w.name in values) w.value = values[w.name]; });
const start = (id, note, size) => {
    window.app.graph.clear();
    window.app.graph.id = id;
    const text = put("MarkdownNote", [40, 80], size);
    text.title = "How to use this";
    text.widgets[0].value = note;
};
"""


# What a server with a card answers, for the pictures: most of those who see them have one.
CARD = {
    "driver": "570",
    "gpus": [{"index": 0, "uuid": "GPU-1", "name": "RTX 4090", "total_gib": 23.99, "free_gib": 23.1, "card": None}],
    "notes": [],
    "node": {"now": "RTX 4090: 23.1 GiB free now.", "budget": "Budget: 23.49 GiB.", "warning": None, "used_by": []},
}


@dataclass(frozen=True)
class Example:
    """A workflow: what it is called, its note, how the page builds it, and how it is pictured.

    ``api``: the file that gets its API form. ``shown``: it is run for its picture, until that is on the page.
    """

    name: str
    note: str
    build: str
    scale: float
    around: dict[str, int]
    api: str | None = None
    shown: str | None = None


PASTE = Example(
    name="Paste a failure, get the corrected job",
    note="""\
# A failed AI Toolkit run goes in, the corrected job comes out

1. **Paste log…** on the classifier: the log of the run that died.
2. **Paste job…**: the text of *Show Advanced* in AI Toolkit's job editor. Without it, the settings that AI Toolkit prints in \
its log are used.
3. Press **Run**. Read what failed and what changes, then **Copy YAML** back into the editor.

It starts with an example, so that you can press Run at once. No GPU is needed.
What you paste is kept on this server with tokens masked; it is not in this workflow.

中文：在诊断节点上点击 **粘贴日志…** 和 **粘贴任务…**，点击运行，查看原因与修改，再点 **复制 YAML** 粘贴回任务编辑器。
""",
    build="""
    start("1f7c1c0e-6c1e-4b0b-9b1f-5d0e7a3b2c41", note, [360, 420]);
    const classifier = put("HeadroomOOMClassifier", [440, 80], [600, 840]);
    set(classifier, {log: "example: train_step_out_of_memory.log", job_file: "example: train_step_out_of_memory.yaml",
                     strength: "safe"});
    const save = put("HeadroomSaveJob", [1090, 80], [540, 640]);
    classifier.connect(0, save, 0);
    """,
    scale=0.95,
    around={"x": 72, "y": 128, "width": 1590, "height": 860},
    api="paste_a_failure.api.json",
    shown=".headroom-verdict >> text=Saved",
)
TRAIN = Example(
    name="Train a LoRA inside a memory budget",
    note="""\
# Train a LoRA, and never lose the run to CUDA out of memory

AI Toolkit must be there: *Settings › Headroom* finds it or sets it up.

1. **Model**: choose what to train. It is downloaded on first use.
2. **Dataset**: drop your pictures (with a `.txt` caption each, or as a zip) on the node.
3. **Training Settings**: a name, steps; the trigger word is on the dataset.
4. **Memory Budget**: how much of which card the run may take.
5. Press **Run**. The largest bucket is tried before the first step; previews that do not fit are made smaller, and never \
end the run. ComfyUI's cancel ends it.

The queue waits while it trains. Queue it again and it goes on from the last checkpoint, or hands back what is finished.

中文：先在 *设置 › Headroom* 中设置 AI Toolkit；选择模型，把图片（附 `.txt` 描述，或 zip）拖到数据集节点，填写名称与步数，点击运行。放不下的预览会缩小，不会中断训练。
""",
    build="""
    start("6d0c2a54-3a55-4f0d-8f0c-2b1f5f6f9a17", note, [360, 560]);
    const model = put("HeadroomModel", [440, 80], [400, 300]);
    const dataset = put("HeadroomDataset", [440, 440], [400, 720]);
    const training = put("HeadroomTraining", [880, 80], [400, 500]);
    set(training, {name: "my_lora", steps: 2000});
    const previews = put("HeadroomSampling", [880, 640], [400, 520]);
    const budget = put("HeadroomMemoryBudget", [1320, 80], [480, 420]);
    const train = put("HeadroomTrain", [1320, 560], [480, 640]);
    model.connect(0, dataset, 0);
    dataset.connect(0, training, 0);
    training.connect(0, previews, 0);
    previews.connect(0, train, 0);
    budget.connect(0, train, 1);
    """,
    scale=0.8,
    around={"x": 60, "y": 100, "width": 1430, "height": 940},
)


def make(page: Page, example: Example) -> None:
    """Build the graph in the page, run it where it can be, and write what the page serializes and shows."""
    page.page.evaluate(f"note => {{ {PUT} {example.build} }}", example.note)
    page.page.evaluate(
        "scale => { const canvas = window.app.canvas; canvas.ds.scale = scale; canvas.ds.offset = [50, 90];"
        " canvas.setDirty(true, true); }",
        example.scale,
    )
    workflow = page.workflow()
    for node in workflow["nodes"]:
        if node["type"].startswith("Headroom"):
            node["properties"] |= {"cnr_id": "comfyui-headroom", "ver": "0.1.0"}
    if example.api:
        prompt = page.page.evaluate("window.app.graphToPrompt().then(made => made.output)")
        written = json.dumps(prompt, ensure_ascii=False, indent=2) + "\n"
        (ROOT / "demo" / example.api).write_text(written, encoding="utf-8")
    if example.shown:
        page.queue()
        page.page.wait_for_selector(example.shown, timeout=60_000)
    page.page.wait_for_timeout(1000)
    page.page.keyboard.press("Escape")
    picture = ROOT / "example_workflows" / f"{example.name}.jpg"
    page.page.screenshot(path=str(picture), type="jpeg", quality=80, clip=example.around)
    page.shot(f"made-{example.name[:5]}")
    written = json.dumps(workflow, ensure_ascii=False, indent=2) + "\n"
    (ROOT / "example_workflows" / f"{example.name}.json").write_text(written, encoding="utf-8")


def main() -> None:
    """Make every example."""
    with (
        tempfile.TemporaryDirectory() as base,
        ComfyUI(Path(base), python()) as comfyui,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium.program(), args=chromium.FLAGS)
        page = Page(browser.new_page(viewport={"width": 1720, "height": 1060}), comfyui)
        page.page.route("**/headroom/gpus*", lambda route: route.fulfill(json=CARD))
        page.open()
        for example in (TRAIN, PASTE):
            make(page, example)
        browser.close()


if __name__ == "__main__":
    main()
