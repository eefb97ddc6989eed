"""What a run will download, told before it begins: by the cache here and a Hub's answers, played by a local server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headroom.contracts import Job
from headroom.job import read_job
from headroom.memory.machine import Space
from headroom.report.wording import words
from headroom.run import downloads
from headroom.run.downloads import Forecast, forecast

MIB = 2**20
SHA = {name: f"{number:064x}" for number, name in enumerate(("unet", "unet2", "text", "vae", "fp16", "file"), start=1)}


def _file(path: str, mib: int, sha: str | None = None) -> dict[str, Any]:
    lfs = {"lfs": {"sha256": sha, "size": mib * MIB}} if sha else {}
    return {"rfilename": path, "size": mib * MIB, "blobId": "0" * 40, **lfs}


REPOSITORIES: dict[str, Any] = {
    "own/sd": {
        "siblings": [
            _file("model_index.json", 0),
            _file("whole.safetensors", 9999, SHA["file"]),
            _file("unet/config.json", 0),
            _file("unet/diffusion_pytorch_model-00001-of-00002.safetensors", 1024, SHA["unet"]),
            _file("unet/diffusion_pytorch_model-00002-of-00002.safetensors", 512, SHA["unet2"]),
            _file("unet/diffusion_pytorch_model.fp16.safetensors", 768, SHA["fp16"]),
            _file("unet/diffusion_pytorch_model.bin", 1536),
            _file("text_encoder/config.json", 0),
            _file("text_encoder/pytorch_model.bin", 256, SHA["text"]),
            _file("safety_checker/config.json", 0),
            _file("safety_checker/model.safetensors", 1024, SHA["file"]),
            _file("vae/config.json", 0),
            _file("vae/diffusion_pytorch_model.safetensors", 128, SHA["vae"]),
        ]
    },
    "own/gated": {"gated": "manual", "siblings": [_file("a/b.safetensors", 2048, SHA["file"])]},
}


@dataclass
class Hub:
    """A Hub that knows the repositories above, and remembers who asked."""

    url: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    elsewhere: str | None = None
    slow: threading.Event | None = None


def _serve(hub: Hub) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append((self.path, self.headers["Authorization"]))
            if hub.slow:
                hub.slow.wait(30)
            if hub.elsewhere:
                self.send_response(307)
                self.send_header("Location", hub.elsewhere + self.path)
                self.end_headers()
                return
            known = REPOSITORIES.get(self.path.removeprefix("/api/models/").partition("?")[0])
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps(known or {"error": "not found"}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    server = _serve(hub)
    yield hub
    server.shutdown()
    server.server_close()


def _job(model: str, more: str = "", arch: str = "sd1") -> Job:
    return read_job(
        f"job: extension\nconfig:\n  name: cat\n  process:\n  - type: sd_trainer\n"
        f"    model: {{name_or_path: {model!r}, arch: {arch}{more}}}\n"
    )


def _told(tmp_path: Path, hub: Hub, job: Job, token: str | None = None, **also: str) -> Forecast:
    environment = {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": hub.url, **also}
    return forecast(job, tmp_path, token, environment)


def _cache(tmp_path: Path, repository: str) -> Path:
    folder = tmp_path / "hf" / "hub" / f"models--{repository.replace('/', '--')}"
    (folder / "blobs").mkdir(parents=True)
    return folder


def _sparse(path: Path, mib: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(mib * MIB)


def test_a_folder_that_is_there_is_downloaded_by_nobody(tmp_path: Path, hub: Hub) -> None:
    (tmp_path / "own" / "sd").mkdir(parents=True)
    for model in ("own/sd", str(tmp_path / "own" / "sd"), "/nowhere/at/all", "C:\\models\\x", "model.safetensors"):
        told = _told(tmp_path, hub, _job(model))
        assert (told.downloads, told.warnings, told.refusal) == ((), (), None), model
    assert hub.asked == []


def test_a_repository_is_told_by_the_files_that_will_be_read(tmp_path: Path, hub: Hub) -> None:
    told = _told(tmp_path, hub, _job("own/sd"))
    (download,) = told.downloads
    assert (download.source, download.gib, download.certain_gib) == ("hub", 1920 / 1024, 1.5)
    assert [words(each) for each in told.warnings] == [
        "own/sd: 1.88 GiB are not here yet and will be downloaded first."
    ]
    assert told.cache == tmp_path / "hf" / "hub"


def test_what_lies_in_the_cache_is_not_downloaded_again(tmp_path: Path, hub: Hub) -> None:
    cache = _cache(tmp_path, "own/sd")
    _sparse(cache / "blobs" / SHA["unet"], 1024)
    _sparse(cache / "blobs" / f"{SHA['unet2']}.ab12.incomplete", 200)
    _sparse(cache / "snapshots" / "c1" / "vae" / "diffusion_pytorch_model.safetensors", 128)  # as Windows keeps it
    (download,) = _told(tmp_path, hub, _job("own/sd")).downloads
    assert download.gib * 1024 == pytest.approx(312 + 256)
    assert download.certain_gib * 1024 == pytest.approx(312)


def test_the_same_weights_in_another_file_are_no_certain_download(tmp_path: Path, hub: Hub) -> None:
    _sparse(_cache(tmp_path, "own/sd") / "snapshots" / "c1" / "whole.safetensors", 9999)
    (download,) = _told(tmp_path, hub, _job("own/sd")).downloads
    assert (download.gib, download.certain_gib) == (1.875, 0.0)


def test_one_file_of_a_repository_and_parts_beside_the_transformer(tmp_path: Path, hub: Hub) -> None:
    told = _told(tmp_path, hub, _job("own/gated/a/b.safetensors", ", extras_name_or_path: own/sd"))
    sizes = {each.repository: (each.gib, each.certain_gib) for each in told.downloads}
    assert sizes == {"own/gated": (2.0, 2.0), "own/sd": (384 / 1024, 0.0)}
    assert "downloads.gated" in [each.key for each in told.warnings]
    assert "downloads.gated" not in [
        each.key for each in _told(tmp_path, hub, _job("own/gated/a/b.safetensors"), "hf_x").warnings
    ]
    adapter = _told(tmp_path, hub, _job(str(tmp_path), ", qtype: 'uint3|own/gated/a/b.safetensors'"))
    assert [(each.repository, each.gib) for each in adapter.downloads] == [("own/gated", 2.0)]


def test_a_repository_that_the_hub_does_not_show_is_said(tmp_path: Path, hub: Hub) -> None:
    told = _told(tmp_path, hub, _job("own/none"))
    assert [each.key for each in told.warnings] == ["downloads.hidden"] and told.refusal is None


def test_without_an_answer_a_rule_of_thumb_is_said_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = Hub("http://127.0.0.1:9")
    told = _told(tmp_path, nobody, _job("own/sd", arch="sdxl"))
    (download,) = told.downloads
    assert (download.source, download.certain_gib) == ("rule", 0.0)
    assert download.gib == pytest.approx((2567463684 + 123060480 + 694659840 + 83653863) * 2 / 2**30)
    assert "rule of thumb" in words(told.warnings[0])
    _sparse(_cache(tmp_path, "own/sd") / "snapshots" / "c1" / "unet" / "x.safetensors", 8000)
    assert _told(tmp_path, nobody, _job("own/sd", arch="sdxl")).gib == 0.0
    unheard = _told(tmp_path, nobody, _job("own/new", arch="never_heard_of"))
    assert [each.key for each in unheard.warnings] == ["downloads.unknown"]
    off = _told(tmp_path, nobody, _job("own/sd", arch="sdxl"), HF_HUB_OFFLINE="1")
    assert off.downloads == () and off.warnings == ()


def test_a_hub_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "_SECONDS", 0.2)
    hub.slow = threading.Event()
    (download,) = _told(tmp_path, hub, _job("own/sd")).downloads
    hub.slow.set()
    assert download.source == "rule"


def test_the_token_goes_to_the_hubs_host_alone(tmp_path: Path, hub: Hub) -> None:
    _told(tmp_path, hub, _job("own/sd"), "hf_secret")
    assert hub.asked == [("/api/models/own/sd?blobs=true", "Bearer hf_secret")]
    front = Hub(elsewhere=hub.url)
    server = _serve(front)
    hub.asked.clear()
    told = _told(tmp_path, front, _job("own/sd"), "hf_secret")
    server.shutdown()
    server.server_close()
    assert front.asked[0][1] == "Bearer hf_secret" and hub.asked == [("/api/models/own/sd?blobs=true", None)]
    assert told.downloads[0].source == "hub"


@pytest.mark.parametrize("name", ["../../etc", "own/..", "own/sd?x=1", "own/sd#x", "a b/c", "http://x/y", "own"])
def test_no_name_asks_the_hub_for_something_else(tmp_path: Path, hub: Hub, name: str) -> None:
    _told(tmp_path, hub, _job(name))
    assert hub.asked == []


@pytest.mark.parametrize(("free", "refused", "warned"), [(1.0, True, True), (1.6, False, True), (2.0, False, False)])
def test_a_disk_is_refused_only_for_what_is_certainly_downloaded(
    tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, free: float, refused: bool, warned: bool
) -> None:
    monkeypatch.setattr(downloads, "space_at", lambda path: Space(100.0, free))
    told = _told(tmp_path, hub, _job("own/sd"))
    assert (told.refusal is not None, "downloads.disk_short" in [each.key for each in told.warnings]) == (
        refused,
        warned,
    )
    if told.refusal:
        assert "1.5 GiB" in words(told.refusal) and str(told.cache) in words(told.refusal)
    assert replace(told, free_gib=None).refusal is None


@pytest.mark.parametrize("siblings", [None, [1], [{}], [{"rfilename": "a", "size": "x"}], "text"])
def test_an_answer_that_is_none_of_a_hub_is_no_answer(tmp_path: Path, hub: Hub, siblings: Any) -> None:
    REPOSITORIES["own/odd"] = {"siblings": siblings}
    (download,) = _told(tmp_path, hub, _job("own/odd")).downloads
    assert download.source == "rule"
