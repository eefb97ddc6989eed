"""A source that ``setup`` can take AI Toolkit from in seconds: its shape without its weight, handed out piece by piece.

The programs are the real ones (venv, pip); only the packages are tiny, and lie in a folder that pip is pointed to.
"""

from __future__ import annotations

import io
import os
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

VERSION = "0.12.99"
TORCH = "1.0.0"
PACKAGES = {
    "torch": "import types\n__version__ = '1.0.0'\nversion = types.SimpleNamespace(cuda=None)\n",
    "torchvision": "",
    "torchaudio": "",
    "tiny_requirement": "",
}
FILES = {
    "run.py": "",
    "version.py": f'VERSION = "{VERSION}"\n',
    "toolkit/__init__.py": "",
    "jobs/__init__.py": "",
    "jobs/process/__init__.py": "",
    "README.md": "pip3 install torch==1.0.0 torchvision==1.0.0 torchaudio==1.0.0\n",
    "requirements.txt": "tiny_requirement\n",
}


def wheels(folder: Path) -> dict[str, str]:
    """Put the packages into a folder; the environment in which pip finds these and no others."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in PACKAGES.items():
        info = f"{name}-1.0.0.dist-info"
        files = {
            f"{name}.py": code,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        with zipfile.ZipFile(folder / f"{name}-1.0.0-py3-none-any.whl", "w") as wheel:
            for path, text in (files | {f"{info}/RECORD": record}).items():
                wheel.writestr(path, text)
    alone = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
    return alone | {"HEADROOM_TORCH_INDEX": "default"}


def surroundings(base: Path) -> dict[str, str]:
    """The environment of a server that has nothing of the machine's own user, and whose pip finds the tiny packages."""
    own = {"XDG_DATA_HOME": str(base / "data"), "LOCALAPPDATA": str(base / "data"), "HF_HOME": str(base / "hf")}
    settings = ("AI_TOOLKIT", "AI_TOOLKIT_PYTHON", "AI_TOOLKIT_SOURCE", "RUNS")
    return wheels(base / "wheels") | own | {f"HEADROOM_{name}": "" for name in settings} | {"HF_TOKEN": ""}


def archive() -> bytes:
    """AI Toolkit's files as a repository's archive; large enough to be sent in pieces."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        for name, text in FILES.items():
            packed.writestr(f"ai-toolkit/{name}", text)
        packed.writestr("ai-toolkit/assets/large.bin", bytes(1 << 20))
    return made.getvalue()


class Source:
    """A server of that archive: the first half at once, the rest when ``go_on`` is set."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.asked = 0
        whole = archive()
        source = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                source.asked += 1
                self.send_response(200)
                self.send_header("Content-Length", str(len(whole)))
                self.end_headers()
                half = len(whole) // 2
                try:
                    self.wfile.write(whole[:half])
                    while not source.go_on.wait(0.05):  # a byte now and then, so that who reads can be stopped
                        self.wfile.write(whole[half : half + 1])
                        half += 1
                    self.wfile.write(whole[half:])
                except OSError:
                    pass  # who asked has hung up

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.1.0.0", 0), Handler)
        self.url = f"http://127.1.0.0:{self._server.server_port}/ai-toolkit.zip"

    @contextmanager
    def serving(self) -> Iterator[Source]:
        """Answer until the block ends."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self.go_on.set()
            self._server.shutdown()
            self._server.server_close()
