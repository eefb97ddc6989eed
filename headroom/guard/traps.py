"""Settings that break AI Toolkit itself or do not do what they say: ``configs/traps.yaml``, and frames off the grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import configs
from ..contracts import Job, Sentence, say
from ..job import settings
from .situation import Situation, whole


def traps(job: Job, skipped_batches: int = 0) -> tuple[Sentence, ...]:
    """What to warn of in a job's first process, before or after a run.

    Some traps open only once training steps ran out of memory: ``skipped_batches`` says whether they did.
    """
    found = settings(job)
    if not found.trains:
        return ()
    at = Situation(found, "unknown", "unknown")
    said: dict[str, Sentence] = {}
    for trap in configs.load("traps")["traps"]:
        if trap.get("after_skipped_batches") and not skipped_batches:
            continue
        if all(_holds(condition, at) for condition in trap["when"]):
            said[trap["id"]] = say(f"lever.trap.{trap['id']}", architecture=at.architecture.label)
    return (*said.values(), *_frames_off_the_grid(at))


def _holds(condition: Mapping[str, Any], at: Situation) -> bool:
    if "fact" in condition:
        return bool(_FACTS[condition["fact"]](at))
    if "effect" in condition:
        return at.architecture.effect(condition["effect"]) in condition["in"]
    if "architecture" in condition:
        return at.settings.base_architecture in condition["architecture"]
    return any(_value_holds(condition, at.get(path)) for path in _paths(condition["key"], at))


def _value_holds(condition: Mapping[str, Any], value: Any) -> bool:
    if "set" in condition:
        return bool(value) is condition["set"]
    if "above" in condition:
        return isinstance(value, (int, float)) and value > condition["above"]
    if "holds" in condition:
        return condition["holds"] in str(value)
    if "in" in condition:
        return str(value).lower() in condition["in"]
    return bool(value == condition["is"]) if "is" in condition else bool(value != condition["not"])


def _paths(key: str, at: Situation) -> Iterator[str]:
    if "[]" not in key:
        yield key
        return
    for index in at.datasets:
        yield key.replace("[]", f"[{index}]")


_FACTS = {
    "caches_text": lambda at: at.caches_text,
    "makes_previews": lambda at: at.previews,
    "architecture_is_known": lambda at: at.architecture.known,
    "has_dataset_batch": lambda at: any(
        at.settings.written(f"datasets[{index}].batch_size") is not None for index in at.datasets
    ),
}


def _frames_off_the_grid(at: Situation) -> Iterator[Sentence]:
    """Counts that the model's VAE truncates or refuses; AI Toolkit passes them on as they are."""
    grid = at.architecture.frames
    if grid is None or not at.architecture.known:
        return
    counts = {
        f"datasets[{index}].num_frames": whole(at.get(f"datasets[{index}].num_frames"))
        for index in at.datasets
        if at.get(f"datasets[{index}].auto_frame_count") is not True
    }
    counts |= {preview.decided_by["num_frames"]: preview.num_frames for preview in at.previews}
    for path, count in counts.items():
        if count is not None and count > 1 and (count - grid.first) % grid.step:
            lower = max(grid.at_most(count), grid.shortest_clip)
            yield say(
                "lever.trap.frames_off_the_grid",
                path=path,
                frames=count,
                architecture=at.architecture.label,
                step=grid.step,
                first=grid.first,
                lower=lower,
                upper=grid.at_most(count + grid.step),
            )
