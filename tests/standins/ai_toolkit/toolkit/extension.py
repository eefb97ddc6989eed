import importlib
import os
import pkgutil

from toolkit.paths import TOOLKIT_ROOT


class Extension:
    name = None
    uid = None

    @classmethod
    def get_process(cls):
        pass


def get_all(variable):
    found = []
    for folder in ("extensions", "extensions_built_in"):
        for _, name, _ in pkgutil.iter_modules([os.path.join(TOOLKIT_ROOT, folder)]):
            found.extend(getattr(importlib.import_module(f"{folder}.{name}"), variable, None) or [])
    return found


def get_all_extensions_process_dict():
    return {extension.uid: extension.get_process() for extension in get_all("AI_TOOLKIT_EXTENSIONS")}
