"""Real ComfyUI servers for the tests, one per frontend and session, each with its own folders and port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from demo.comfyui import ComfyUI
from demo.environment import frontend_folder, python


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str | None], ComfyUI]]:
    """Start ComfyUI with its own frontend (``None``) or another release; the same server for the whole session."""
    if not python().exists():
        pytest.skip("a real ComfyUI; `python tests` installs it")
    running: dict[str | None, ComfyUI] = {}
    with ExitStack() as servers:

        def start(version: str | None) -> ComfyUI:
            if version and not frontend_folder(version).is_dir():
                pytest.skip(f"ComfyUI's frontend {version}; `python tests` downloads it")
            if version not in running:
                base = tmp_path_factory.mktemp("comfyui")
                page = frontend_folder(version) if version else None
                running[version] = servers.enter_context(ComfyUI(base, python(), page))
            return running[version]

        yield start


@pytest.fixture(scope="session")
def comfyui(serve: Callable[[str | None], ComfyUI]) -> ComfyUI:
    """ComfyUI with its own frontend."""
    return serve(None)
