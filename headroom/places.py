"""Where Headroom's own things are kept, and the settings that name the rest: the environment first, then a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

_PACK = Path(__file__).resolve().parent.parent
SETTINGS = "headroom.json"  # in ComfyUI's user folder


def setting(name: str, file: Path | None = None) -> str | None:
    """A setting by its name (``HEADROOM_AI_TOOLKIT``): the environment's, else the settings file's, else ``None``.

    A settings file that is absent, unreadable or no JSON object sets nothing.
    """
    if value := os.environ.get(name):
        return value
    try:
        kept = json.loads(file.read_text(encoding="utf-8")) if file else None
    except (OSError, ValueError):
        return None
    value = kept.get(name) if isinstance(kept, dict) else None
    return value if isinstance(value, str) and value else None


def settings_file() -> Path | None:
    """The settings file as the command line finds it: ``HEADROOM_COMFYUI``'s, or that of the ComfyUI around this pack.

    Inside ComfyUI, which may keep its user folder elsewhere, ask ComfyUI instead.
    """
    named = os.environ.get("HEADROOM_COMFYUI")
    if named:
        return Path(named).expanduser() / "user" / SETTINGS
    return _PACK.parents[1] / "user" / SETTINGS if _PACK.parent.name == "custom_nodes" else None


def user_data(platform: str = sys.platform) -> Path:
    """Headroom's folder among the platform's user data; nothing says that it exists."""
    home = Path.home()
    if platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        named = Path(os.environ.get("XDG_DATA_HOME", ""))
        base = named if named.is_absolute() else home / ".local" / "share"  # relative: to be ignored, says XDG
    return base / "headroom"


def tools() -> Path:
    """Where programs that Headroom sets up itself are kept."""
    return user_data() / "tools"


def model_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Where Hugging Face's downloads are kept (huggingface_hub/constants.py)."""
    if named := environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE"):
        return Path(os.path.expandvars(named)).expanduser()
    return hugging_face(environment) / "hub"


def hugging_face(environment: Mapping[str, str] = os.environ) -> Path:
    """Hugging Face's own folder: its cache and its token."""
    caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
    home = environment.get("HF_HOME") or Path(caches, "huggingface")
    return Path(os.path.expandvars(home)).expanduser()
