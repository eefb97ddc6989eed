"""Builds AI Toolkit's own config classes from jobs, as its trainer's constructor does. Run by AI Toolkit's Python.

Arguments: AI Toolkit's folder. Standard input: a JSON list of processes. Standard output: a JSON list with, for each,
an empty text or what went wrong. Source: jobs/process/BaseSDTrainProcess.py __init__.
"""

import copy
import json
import os
import sys


def build(process, modules):
    process = copy.deepcopy(process)
    train = modules.TrainConfig(**process.get("train") or {})
    model = process.get("model") or {}
    model["dtype"] = train.dtype
    model = modules.ModelConfig(**model)
    save = modules.SaveConfig(**process.get("save") or {})
    modules.SampleConfig(**process.get("sample") or {})
    if process.get("first_sample"):
        modules.SampleConfig(**process["first_sample"])
    if process.get("network"):
        modules.NetworkConfig(**process["network"])
    datasets = modules.preprocess_dataset_raw_config(process.get("datasets") or [])
    if train.cache_text_embeddings:
        for dataset in datasets:
            dataset["cache_text_embeddings"] = True
    modules.validate_configs(train, model, save, [modules.DatasetConfig(**dataset) for dataset in datasets])
    if (train.unload_text_encoder or train.cache_text_embeddings) and train.train_text_encoder:
        raise ValueError("Cannot unload text encoder if training text encoder")


def main():
    sys.path.insert(0, sys.argv[1])
    os.chdir(sys.argv[1])
    answer, sys.stdout = sys.stdout, sys.stderr
    from toolkit import config_modules

    found = []
    for process in json.load(sys.stdin):
        try:
            build(process, config_modules)
            found.append("")
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    json.dump(found, answer)


main()
