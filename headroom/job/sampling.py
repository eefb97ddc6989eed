"""A job for looking at a LoRA: AI Toolkit's own first previews with the LoRA loaded, and nothing trained.

``job: generate`` is another way that fails for the older model classes; the first previews of a training work for all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..contracts import Job
from .reading import read_job
from .stranger import LONGEST_NAME

SUFFIX = " preview"


def sampling_job(job: Job, lora: Path | None = None, prompts: Sequence[str] = ()) -> Job:
    """The job with its first previews on, to be run until ``baseline_sample``; without prompts, the job's own.

    It has a name of its own, since AI Toolkit prefers a checkpoint of the same name to the LoRA
    (jobs/process/BaseSDTrainProcess.py ``get_latest_save_path``). The datasets stay: how the text encoder is handled
    hangs on them. Comments go. Raises JobError for a job that AI Toolkit could not read.
    """
    data: dict[str, Any] = json.loads(json.dumps(job.data, default=str))
    config = data["config"]
    config["name"] = str(config["name"])[: LONGEST_NAME - len(SUFFIX)] + SUFFIX
    process = config["process"][0]
    config["process"] = [process]
    process.pop("name", None)
    process.pop("first_sample", None)  # previews of its own, beside the usual ones
    _set(process, "train", disable_sampling=False, skip_first_sample=False, force_first_sample=True)
    _set(process, "sample", neg=(process.get("sample") or {}).get("neg") or "")  # the default fails for older classes
    if prompts:
        _set(process, "sample", samples=[{"prompt": prompt} for prompt in prompts])
        process["sample"].pop("prompts", None)
    if lora:
        _set(process, "network", pretrained_lora_path=str(lora))
    return read_job(json.dumps(data, ensure_ascii=False, indent=2), job.origin, "json")


def _set(process: dict[str, Any], section: str, **values: Any) -> None:
    process[section] = {**(process.get(section) or {}), **values}
