"""What every test may use, and the list of what was skipped and how to enable it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytest_plugins = ["comfyui_server", "comfyui_browser", "toolkits", "graph_server"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the long loops too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak"):
        return
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.skip(reason="a long loop; run `python tests --soak`"))


def pytest_configure() -> None:
    # The pack as ComfyUI sees it, one package around nodes/ and headroom/, without running its __init__.py.
    pack = ModuleType("headroom_pack")
    pack.__path__ = [str(ROOT)]
    sys.modules["headroom_pack"] = pack


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in terminalreporter.stats.get("skipped", [])
    )
    if reasons:
        terminalreporter.section("skipped, and what enables it")
        for reason, count in sorted(reasons.items()):
            terminalreporter.line(f"{count:4d} × {reason}")
