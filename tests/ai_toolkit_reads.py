"""Run in AI Toolkit's own Python and folder: what its loader and its config classes make of jobs given on stdin.

In: ``{"files": [path], "processes": [process config]}``. Out: the same shape, every entry the value or ``{"error"}``.
"""

from __future__ import annotations

import contextlib
import copy
import json
import sys


def loaded(path: str) -> object:
    """A job file through AI Toolkit's loader, as ``[name]`` leaves it."""
    from toolkit.config import get_config

    return get_config(path, "[name]")


def attributes(thing: object) -> dict[str, object]:
    """What a config object holds, as far as JSON can."""
    held = {}
    for key, value in vars(thing).items():
        with contextlib.suppress(TypeError):
            held[key] = json.loads(json.dumps(value))
    return held


def configured(process: dict) -> dict[str, object]:
    """A process through the config classes, in the order in which the trainer's constructor makes them."""
    from toolkit.config_modules import (
        DatasetConfig,
        GenerateImageConfig,
        LoggingConfig,
        ModelConfig,
        NetworkConfig,
        SampleConfig,
        SaveConfig,
        TrainConfig,
    )

    process = copy.deepcopy(process)
    train = TrainConfig(**(process.get("train") or {}))
    model_raw = process.get("model") or {}
    model_raw["dtype"] = train.dtype
    model = ModelConfig(**model_raw)
    datasets = process.get("datasets") or []
    for dataset in datasets:
        if train.cache_text_embeddings:
            dataset["cache_text_embeddings"] = True
    sample = SampleConfig(**(process.get("sample") or {}))
    previews = []
    for at, prompt in enumerate(sample.prompts):
        item = sample.samples[at]
        made = GenerateImageConfig(
            prompt=prompt, width=item.width, height=item.height, num_frames=item.num_frames, output_path="x.jpg"
        )
        previews.append([made.width, made.height, made.num_frames])
    network = process.get("network")
    return {
        "train": attributes(train),
        "train.ema_config": attributes(train.ema_config),
        "model": attributes(model),
        "datasets": [attributes(DatasetConfig(**dataset)) for dataset in datasets],
        "sample": attributes(sample),
        "sample.samples": [attributes(item) for item in sample.samples],
        "save": attributes(SaveConfig(**(process.get("save") or {}))),
        "logging": attributes(LoggingConfig(**(process.get("logging") or {}))),
        "network": attributes(NetworkConfig(**network)) if network is not None else None,
        "previews": previews,
    }


def main() -> None:
    asked = json.load(sys.stdin)
    sys.path.insert(0, "")
    answer: dict[str, list[object]] = {"files": [], "processes": []}
    with contextlib.redirect_stdout(sys.stderr):
        for kind, read in (("files", loaded), ("processes", configured)):
            for item in asked[kind]:
                try:
                    answer[kind].append(read(item))
                except Exception as error:
                    answer[kind].append({"error": f"{type(error).__name__}: {error}"})
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
