import json
import os
import re

import yaml

from toolkit.paths import TOOLKIT_ROOT

EXTENSIONS = [".json", ".jsonc", ".yaml", ".yml"]


class Loader(yaml.SafeLoader):
    """1e-4 is a number, as in AI Toolkit."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)$|^[-+]?[0-9][0-9_]*\.[0-9_]*$"),
    list("-+0123456789."),
)


def replace_env_vars_in_string(text):
    def value(match):
        found = os.environ.get(match[1])
        if found is None:
            raise ValueError(
                f"Environment variable {match[1]} not set. Please ensure it's defined before proceeding."
            )
        return found

    return re.sub(r"\$\{([^}]+)\}", value, text)


def preprocess_config(config, name=None):
    for key in ("job", "config"):
        if key not in config:
            raise ValueError(f"config file must have a {key} key")
    if "name" not in config["config"] and name is None:
        raise ValueError("config file must have a config.name key")
    text = json.dumps(config).replace("[name]", name or config["config"]["name"])
    return json.loads(text)


def get_config(path, name=None):
    candidates = [os.path.join(TOOLKIT_ROOT, "config", path + ending) for ending in EXTENSIONS]
    real = next((each for each in [*candidates, path] if os.path.isfile(each)), None)
    if real is None:
        raise ValueError(f"Could not find config file {path}")
    with open(real, encoding="utf-8") as file:
        text = replace_env_vars_in_string(file.read())
    if real.endswith((".json", ".jsonc")):
        return preprocess_config(json.loads(text), name)
    return preprocess_config(yaml.load(text, Loader=Loader), name)
