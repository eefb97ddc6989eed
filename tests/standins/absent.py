"""A module that is not installed, as far as importing it goes: names resolve, using one fails loudly."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, ClassVar


class Absent:
    """Something of a package that this environment does without."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Absent:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Absent(f"{self._name}.{attribute}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{self._name} was called, but this environment has only a stand-in for it")


class AbsentModule(ModuleType):
    """A package whose every attribute is ``Absent``."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, attribute: str) -> Absent:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Absent(f"{self.__name__}.{attribute}")


def replace(package: str, *submodules: str) -> None:
    """Put a stand-in for the package, and for the submodules that are imported by name, into ``sys.modules``."""
    module = AbsentModule(package)
    module.__spec__ = sys.modules[package].__spec__
    sys.modules[package] = module
    for submodule in submodules:
        part = AbsentModule(f"{package}.{submodule}")
        sys.modules[part.__name__] = part
        parent, _, name = part.__name__.rpartition(".")
        setattr(sys.modules[parent], name, part)
