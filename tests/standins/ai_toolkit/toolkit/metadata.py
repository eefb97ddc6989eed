import hashlib
import json
from collections import OrderedDict

import safetensors.torch
from info import software_meta
from safetensors import safe_open


def get_meta_for_safetensors(meta, name=None):
    text = json.dumps(meta)
    saved = json.loads(text.replace("[name]", name) if name else text, object_pairs_hook=OrderedDict)
    saved["software"] = software_meta
    for key, value in saved.items():
        if not isinstance(value, str):
            saved[key] = json.dumps(value)
    saved["format"] = "pt"
    return saved


def add_model_hash_to_meta(state_dict, meta):
    kept = {key: value for key, value in meta.items() if key.startswith("ss_")}
    meta["sshs_model_hash"] = hashlib.sha256(safetensors.torch.save(state_dict, kept)).hexdigest()
    return meta


def load_metadata_from_safetensors(path):
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
    except Exception as error:
        print(f"Error loading metadata from {path}: {error}")
        return OrderedDict()
    parsed = OrderedDict()
    for key, value in meta.items():
        try:
            parsed[key] = json.loads(value)
        except json.JSONDecodeError:
            parsed[key] = value
    return parsed
