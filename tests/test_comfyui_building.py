"""A job built in the graph of a real ComfyUI, and files dropped on its page."""

from __future__ import annotations

import base64
import io
import json
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from comfyui_browser import Page
from tiny_pictures import png

from demo.comfyui import ComfyUI
from demo.environment import NEWER_FRONTEND
from headroom.guard.labels import labels
from headroom.job import read_job_file, settings
from headroom.job.stranger import Rules, vet

pytestmark = pytest.mark.comfyui
PNG = png()


@pytest.fixture
def cats(comfyui: ComfyUI) -> Path:
    """A folder of the input folder with two pictures, one with a caption."""
    folder = comfyui.base / "input" / "cats"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("a", "b"):
        (folder / f"{name}.png").write_bytes(PNG)
    (folder / "a.txt").write_text("a cat", encoding="utf-8")
    return folder


def graph(**nodes: Mapping[str, Any]) -> dict[str, Any]:
    """Model, Dataset and Save Job, with what is given for each over that; further nodes stand between or beside."""
    parts = {
        "Model": {"architecture": "SD 1.5"},
        "Dataset": {"job": ["Model", 0], "folder": "cats"},
        "SaveJob": {"job": ["Dataset", 0], "name": "built"},
    }
    for name, inputs in nodes.items():
        parts[name] = {**parts.get(name, {}), **inputs}
    own = {"Model", "Dataset", "SaveJob", "Training", "Sampling"}
    return {
        name: {"class_type": inputs.pop("class_type", f"Headroom{name}" if name in own else name), "inputs": inputs}
        for name, inputs in ((name, dict(inputs)) for name, inputs in parts.items())
    }


def shown(history: dict[str, Any], node: str) -> dict[str, Any]:
    assert history["status"]["status_str"] == "success", history["status"]["messages"][-1]
    return next(panel for panel in history["outputs"][node]["headroom"] if panel.get("lang", "en") == "en")


def error(history: dict[str, Any]) -> str:
    name, said = history["status"]["messages"][-1]
    assert name == "execution_error", history["status"]["messages"][-1]
    return said["exception_message"]


def saved(comfyui: ComfyUI, history: dict[str, Any]) -> dict[str, Any]:
    """The first process of the job that was saved."""
    panel = shown(history, "SaveJob")
    return read_job_file(comfyui.base / "output" / panel["subfolder"] / panel["file"]).data["config"]["process"][0]


def upload(comfyui: ComfyUI, files: Mapping[str, bytes], query: str = "lang=en", **headers: str) -> tuple[int, Any]:
    """What a page sends when files are dropped."""
    body = b"".join(
        b"--edge\r\nContent-Disposition: form-data; name=file; filename=%s\r\n\r\n%s\r\n"
        % (json.dumps(name).encode(), content)
        for name, content in files.items()
    )
    request = urllib.request.Request(
        f"{comfyui.url}/headroom/datasets?{query}",
        body + b"--edge--\r\n",
        {"Content-Type": "multipart/form-data; boundary=edge", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as refused:
        raw = refused.read()  # where ComfyUI itself refuses, there is no JSON
        return refused.code, json.loads(raw) if raw.startswith(b"{") else raw


# Building


def test_the_smallest_graph_builds_a_job_and_saves_it(comfyui: ComfyUI, cats: Path) -> None:
    history = comfyui.run(graph())
    job = saved(comfyui, history)
    assert job["model"]["name_or_path"] == "stable-diffusion-v1-5/stable-diffusion-v1-5"
    assert job["datasets"][0]["folder_path"] == str(cats.resolve())
    assert job["train"]["disable_sampling"] is True
    assert "pictures: 2; with a caption: 1" in shown(history, "Dataset")["said"][0]
    assert "Without a caption: b.png" in shown(history, "Dataset")["notes"][0]


def test_every_part_and_two_datasets_may_run_on_this_server(comfyui: ComfyUI, cats: Path) -> None:
    history = comfyui.run(
        graph(
            Dataset={"trigger_word": "zqx", "resolutions": "512, 640", "cache_latents": "on", "repeats": 2},
            Second={"class_type": "HeadroomDataset", "job": ["Dataset", 0], "folder": "cats", "regularization": True},
            Training={"job": ["Second", 0], "name": "my cat", "steps": 20, "learning_rate": "2e-4", "rank": 8},
            Sampling={
                "job": ["Training", 0],
                "prompts": "a [trigger]\na dog",
                "every": 5,
                "width": 256,
                "guidance": 3.5,
            },
            SaveJob={"job": ["Sampling", 0], "name": ""},
        )
    )
    panel = shown(history, "SaveJob")
    assert panel["file"] == "my cat.yaml"
    job = read_job_file(comfyui.base / "output" / panel["subfolder"] / panel["file"])
    used = settings(job)
    assert used.datasets == 2 and used.written("datasets[1].is_reg") is True
    assert used.written("datasets[0].resolution") == [512, 640] and used.written("datasets[0].num_repeats") == 2
    assert (used.get("train.steps"), used.get("train.lr"), used.get("network.linear")) == (20, 2e-4, 8)
    assert (used.get("sample.width"), used.get("sample.height"), used.get("sample.guidance_scale")) == (256, 512, 3.5)
    vetted = vet(job, Rules(comfyui.base / "output", (comfyui.base / "input",), comfyui.base), {})
    assert not vetted.refusals


def test_every_architecture_of_the_form_can_be_chosen(comfyui: ComfyUI) -> None:
    options = comfyui.call("/object_info/HeadroomModel")[1]["HeadroomModel"]["input"]["required"]["architecture"]
    offered = options[1]["options"] if options[0] == "COMBO" else options[0]
    assert offered == list(labels())


def test_pictures_of_the_graph_become_a_dataset_with_captions(comfyui: ComfyUI) -> None:
    prompt = graph(
        EmptyImage={"width": 32, "height": 24, "batch_size": 2, "color": 255},
        Words={"class_type": "PrimitiveStringMultiline", "value": "first\nsecond"},
        Dataset={
            "images": ["EmptyImage", 0],
            "captions": ["Words", 0],
            "folder": "(drop files here or choose a folder)",
        },
    )
    history = comfyui.run(prompt)
    folder = Path(saved(comfyui, history)["datasets"][0]["folder_path"])
    assert folder.parent == (comfyui.base / "input" / "headroom" / "datasets").resolve()
    assert sorted(path.name for path in folder.iterdir()) == ["0001.png", "0001.txt", "0002.png", "0002.txt"]
    assert (folder / "0002.txt").read_text(encoding="utf-8") == "second\n"
    prompt["Words"]["inputs"]["value"] = "a\nb\nc"
    assert "there are 3 for 2 pictures" in error(comfyui.run(prompt))


@pytest.mark.parametrize(
    ("node", "inputs", "sentence"),
    [
        ("Dataset", {"folder": "their_cats"}, "their_cats is not in this server's input folder"),
        ("Dataset", {"folder": "../output"}, "is not in this server's input folder"),
        ("Dataset", {"folder": "(drop files here or choose a folder)"}, "nothing is chosen"),
        ("Dataset", {"control_folder": "gone"}, "gone is not in this server's input folder"),
        ("Dataset", {"resolutions": "huge"}, "resolutions: huge is not a size"),
        ("Model", {"model": "checkpoints: ../../secret.safetensors"}, "is not on this server"),
        ("Model", {"architecture": "GPT-7"}, "GPT-7"),
        ("Model", {"quantization": "uint1"}, "uint1"),
        ("Training", {"job": ["Dataset", 0], "name": "../../up"}, "cannot be the name of a folder"),
        ("Training", {"job": ["Dataset", 0], "learning_rate": "fast"}, "learning_rate is fast"),
        ("Sampling", {"job": ["Dataset", 0], "prompts": ""}, "prompts: there is none"),
        (
            "Sampling",
            {"job": ["Dataset", 0], "prompts": "a", "image": "../x.png"},
            "is not in this server's input folder",
        ),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(
    comfyui: ComfyUI, cats: Path, node: str, inputs: dict[str, Any], sentence: str
) -> None:
    status, answer = comfyui.call("/prompt", {"prompt": graph(**{node: inputs})})
    if status != 200:  # newer ComfyUI checks what a combo may hold by itself
        assert sentence in json.dumps(answer)
        return
    told = error(comfyui.run(graph(**{node: inputs})))
    assert sentence in told and "\n" not in told.strip()


def test_a_dataset_that_changed_on_the_disk_is_read_again(comfyui: ComfyUI, cats: Path) -> None:
    assert "pictures: 2" in shown(comfyui.run(graph()), "Dataset")["said"][0]
    (cats / "c.png").write_bytes(PNG)
    try:
        assert "pictures: 3" in shown(comfyui.run(graph()), "Dataset")["said"][0]
    finally:
        (cats / "c.png").unlink()


# Dropping


def test_a_dropped_zip_becomes_a_folder_that_trains(comfyui: ComfyUI) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in {
            "dogs/1.png": PNG,
            "dogs/1.txt": b"a dog",
            "dogs/x.exe": b"x",
            "../../evil.png": PNG,
        }.items():
            archive.writestr(name, content)
    status, answer = upload(comfyui, {"dogs.zip": packed.getvalue()})
    assert (status, answer["media"], answer["captions"]) == (200, 2, 1)
    assert "x.exe" in answer["left_out"][0]
    folder = comfyui.base / "input" / answer["name"]
    assert sorted(path.name for path in folder.iterdir()) == ["1.png", "1.txt", "evil.png"]
    assert not [path for path in comfyui.base.rglob("evil.png") if folder not in path.parents]
    job = saved(comfyui, comfyui.run(graph(Dataset={"folder": answer["name"]})))
    assert job["datasets"][0]["folder_path"] == str(folder.resolve())


def test_dropped_files_that_cannot_be_kept_leave_nothing(comfyui: ComfyUI) -> None:
    before = set((comfyui.base / "input").rglob("*"))
    for files in ({"a.docx": b"x"}, {}, {"x.zip": b"PK nothing"}):
        status, answer = upload(comfyui, files)
        assert status == 400 and answer["problem"]
    assert "没有可训练的文件" in upload(comfyui, {"a.docx": b"x"}, "lang=zh")[1]["problem"]
    assert comfyui.call("/headroom/datasets", b"no form")[0] == 400
    assert set((comfyui.base / "input").rglob("*")) - before <= {comfyui.base / "input" / "headroom" / "datasets"}


def test_pages_of_other_sites_cannot_drop_files_here(comfyui: ComfyUI) -> None:
    status, _ = upload(comfyui, {"a.png": PNG}, Origin="http://evil.example")
    assert status == 403


def test_files_larger_than_comfyui_takes_in_one_request_arrive_whole(comfyui: ComfyUI) -> None:
    status, answer = upload(comfyui, {"big.mp4": bytes(120 << 20)})  # ComfyUI's own limit is 100 MB
    assert status == 200
    assert (comfyui.base / "input" / answer["name"] / "big.mp4").stat().st_size == 120 << 20


# On the page

PAGES = [(None, False), (None, True), (NEWER_FRONTEND, True)]
Open = Callable[..., Page]
DROP = """([data, selector]) => {
    const bytes = Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], "dogs.zip", { type: "application/zip" }));
    const onto = document.querySelector(selector);
    const place = onto.getBoundingClientRect();
    const at = { clientX: place.x + place.width / 2, clientY: place.y + place.height / 2 };
    for (const kind of ["dragenter", "dragover", "drop"])
        onto.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true, ...at }));
}"""


@pytest.mark.browser
@pytest.mark.parametrize(("frontend", "nodes_2"), PAGES, ids=["own-classic", "own-nodes2", "newer-nodes2"])
def test_a_zip_dropped_on_the_node_is_kept_and_chosen(open_page: Open, frontend: str | None, nodes_2: bool) -> None:
    page = open_page(frontend, nodes_2=nodes_2)
    page.page.evaluate(
        """() => {
            const types = ["HeadroomModel", "HeadroomDataset", "HeadroomTraining", "HeadroomSampling"];
            const nodes = types.map((type, at) => {
                const node = window.LiteGraph.createNode(type);
                node.pos = [40 + at * 420, 120];
                window.app.graph.add(node);
                return node;
            });
            nodes.slice(1).forEach((node, at) => nodes[at].connect(0, node, 0));
        }"""
    )
    page.page.wait_for_selector(".headroom-drop")
    page.page.wait_for_timeout(500)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in {
            "dogs/1.png": PNG,
            "dogs/1.txt": b"a dog",
            "dogs/2.png": png(8, 8),
            "notes.docx": b"x",
        }.items():
            archive.writestr(name, content)
    page.page.evaluate(DROP, [base64.b64encode(packed.getvalue()).decode(), ".headroom-drop"])
    page.page.wait_for_selector("text=Kept. To train on: 2; captions: 1.")
    assert "notes.docx" in page.page.locator(".headroom-panel:has(.headroom-drop)").inner_text()
    way = f"{frontend or 'own'}-{'nodes2' if nodes_2 else 'classic'}"
    page.shot(f"dropped-{way}")
    page.queue()
    page.page.wait_for_selector("text=pictures: 2; with a caption: 1", timeout=60_000)
    page.page.wait_for_selector("text=Previews: 2", timeout=60_000)
    page.shot(f"built-{way}")
    workflow = page.workflow()
    (dataset,) = (node for node in workflow["nodes"] if node["type"] == "HeadroomDataset")
    assert dataset["widgets_values"][0].startswith("headroom/datasets/")
    assert "1.png" not in json.dumps(workflow) and "a dog" not in json.dumps(workflow)
    assert len(workflow["nodes"]) == 4, "the drop did not load anything as a workflow"
    assert page.problems == []


@pytest.mark.browser
def test_a_drop_beside_the_marked_place_still_counts_for_the_node(open_page: Open) -> None:
    page = open_page()
    page.add("HeadroomDataset")
    page.page.wait_for_selector(".headroom-drop")
    taken = page.page.evaluate(
        """async () => {
            const transfer = new DataTransfer();
            transfer.items.add(new File(["x"], "notes.docx"));
            const event = new DragEvent("drop", { dataTransfer: transfer });
            const node = window.app.graph.nodes[0];
            return [node.onDragOver(event), await node.onDragDrop(event)];
        }"""
    )
    assert taken == [True, True]
    page.page.wait_for_selector(".headroom-problem >> text=nothing to train on")
