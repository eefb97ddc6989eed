"""The folders that the server's owner allows Headroom to read, and the settings that name them.

A workflow can choose a name inside these folders, never a folder. ComfyUI's own modules are imported on use, here and
in ``language``, so that the tests can read everything but the nodes without a ComfyUI.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..headroom import places as core

SAMPLES = Path(__file__).resolve().parent.parent / "example_workflows" / "samples"


@dataclass(frozen=True)
class Places:
    """Where logs and jobs may come from. ``ai_toolkit_output`` is ``None`` where no AI Toolkit is set."""

    input: Path
    runs: Path
    ai_toolkit_output: Path | None
    samples: Path = SAMPLES

    @property
    def pasted(self) -> Path:
        """Where pasted text is kept, inside the input folder."""
        return self.input / "headroom"


def setting(name: str) -> str | None:
    """A setting of the server: the environment first, then the settings file in ComfyUI's user folder."""
    return core.setting(name, settings_file())


def settings_file() -> Path:
    """Headroom's settings file, where this ComfyUI keeps its user folder."""
    import folder_paths

    return Path(folder_paths.get_user_directory(), core.SETTINGS)


def places() -> Places:
    """The folders as they are set now."""
    import folder_paths

    toolkit, runs = setting("HEADROOM_AI_TOOLKIT"), setting("HEADROOM_RUNS")
    return Places(
        input=Path(folder_paths.get_input_directory()),
        runs=Path(runs) if runs else Path(folder_paths.get_output_directory(), "headroom"),
        ai_toolkit_output=Path(toolkit, "output") if toolkit else None,
    )
