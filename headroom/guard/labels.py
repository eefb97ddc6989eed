"""What AI Toolkit's form calls each architecture; apart from their facts, since ComfyUI waits for this at its start."""

from __future__ import annotations

from functools import cache

from .. import configs


@cache
def labels() -> dict[str, str]:
    """Every architecture's label in AI Toolkit's form, and its name (``model.arch``), by label.

    Only the first two lines of each file are parsed: ComfyUI asks for them when it starts.
    """
    found = {}
    for file in (configs.FOLDER / "architectures").glob("*.yaml"):
        head = file.read_text(encoding="utf-8").split("\n", 2)[:2]
        if head[0].startswith("arch: "):
            named = configs.parsed("\n".join(head))
            found[named["label"]] = named["arch"]
    return {label: found[label] for label in sorted(found, key=str.casefold)}
