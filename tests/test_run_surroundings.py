"""The environment of a trainer: nothing of our Python and allocator, and torch's growing segments where they work."""

from __future__ import annotations

import pytest

from headroom.contracts import System
from headroom.memory.nvml import Gpu
from headroom.run.surroundings import expands, surroundings

CARD = Gpu(0, "GPU-1", "Card", 24.0, 20.0, ())
UNIFIED = Gpu(0, "GPU-1", "Orin", None, None, None)  # memory shared with the host: the driver tells no size


def test_comfyuis_allocator_is_never_inherited() -> None:
    ours = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "PYTHONPATH": "/ours", "PATH": "/bin"}
    told = surroundings(None, None, "linux", None, ours)
    assert told == {"PATH": "/bin", "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
    on_a_card = surroundings("GPU-1", CARD, "linux", "hf_x", ours)
    assert on_a_card["PYTORCH_CUDA_ALLOC_CONF"] == on_a_card["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    assert (on_a_card["CUDA_VISIBLE_DEVICES"], on_a_card["HF_TOKEN"]) == ("GPU-1", "hf_x")


@pytest.mark.parametrize(
    ("card", "system", "expected"),
    [
        (CARD, "linux", True),
        (CARD, "wsl", False),
        (CARD, "windows", False),
        (UNIFIED, "linux", False),
        (None, "linux", False),
        (CARD, None, False),
    ],
)
def test_segments_grow_where_torch_can_let_them(card: Gpu | None, system: System | None, expected: bool) -> None:
    assert expands(card, system) is expected
