"""The engine as this machine's settings make it: AI Toolkit, its Python, and the Hugging Face token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from .. import places
from ..contracts import Known
from ..job.stranger import Rules
from .ai_toolkit import AiToolkit
from .locate import Toolkit, find_python, find_toolkit
from .store import Resume, Store


def engine_here(
    settings: Path | None,
    store: Store,
    rules: Callable[[Toolkit], Rules] | None = None,
    *,
    resume: Resume = "resume",
    force: bool = False,
    largest_bucket: Literal["stop", "continue", "off"] = "stop",
    known: Known = Known(),  # noqa: B008
) -> AiToolkit:
    """AI Toolkit here, by the environment and that settings file. Raises LocateError where it is not found.

    ``rules`` are made for the AI Toolkit that was found, and hold for a stranger's job; ``None`` for the user's own.
    """
    toolkit = find_toolkit(settings)
    return AiToolkit(
        toolkit.folder,
        find_python(toolkit, settings),
        rules(toolkit) if rules else None,
        store,
        resume=resume,
        force=force,
        keep=places.setting("HEADROOM_KEEP_RUNS", settings) == "1",
        largest_bucket=largest_bucket,
        hf_token=places.setting("HF_TOKEN", settings),
        known=known,
    )
