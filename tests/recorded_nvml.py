"""Plays recorded answers of NVML through the real ``pynvml``: only its functions are replaced, its errors are its own.

A recording is JSON: the answer of each function, or ``{"error": NAME}`` with a name of ``NVML_ERROR_*``. A card's
answers stand under ``cards``, those of its MIG instances under ``instances``, and serve as the handles. The recordings
hold what NVML's documentation gives for each situation; no machine with such a card was at hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "cases" / "nvml"
RECORDINGS = sorted(path.stem for path in FOLDER.glob("*.json"))


def play(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let NVML answer as recorded in ``cases/nvml/<name>.json``."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is missing; pip install nvidia-ml-py")
    recording = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))

    def answer(recorded: Any) -> Any:
        if isinstance(recorded, dict) and "error" in recorded:
            raise pynvml.NVMLError(getattr(pynvml, f"NVML_ERROR_{recorded['error']}"))
        return recorded

    def asked(function: str, handle: dict[str, Any]) -> Any:
        return answer(handle[function])

    def memory(handle: dict[str, Any]) -> Any:
        return SimpleNamespace(**asked("nvmlDeviceGetMemoryInfo", handle))

    def processes(function: str) -> Any:
        return lambda handle: [SimpleNamespace(pid=p, usedGpuMemory=used) for p, used in asked(function, handle)]

    def card(index: int) -> Any:
        return answer(recording["cards"][index])

    def instance(handle: dict[str, Any], index: int) -> Any:
        return answer(handle["instances"][index])

    def program(pid: int) -> Any:
        return answer(recording["nvmlSystemGetProcessName"][str(pid)])

    played = {
        "nvmlInit": lambda: answer(recording.get("nvmlInit")),
        "nvmlShutdown": lambda: answer(recording.get("nvmlShutdown")),
        "nvmlSystemGetDriverVersion": lambda: answer(recording["nvmlSystemGetDriverVersion"]),
        "nvmlSystemGetProcessName": program,
        "nvmlDeviceGetCount": lambda: answer(recording.get("nvmlDeviceGetCount", len(recording.get("cards", ())))),
        "nvmlDeviceGetHandleByIndex": card,
        "nvmlDeviceGetMigDeviceHandleByIndex": instance,
        "nvmlDeviceGetMaxMigDeviceCount": lambda handle: len(handle["instances"]),
        "nvmlDeviceGetMemoryInfo": memory,
    }
    for function in ("nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMigMode"):
        played[function] = lambda handle, function=function: asked(function, handle)
    for function in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        played[function] = processes(function)
    for function, replacement in played.items():
        monkeypatch.setattr(pynvml, function, replacement)  # raises where the real one has no such function
