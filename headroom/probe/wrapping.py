"""Methods of AI Toolkit, found by name where they are defined and wrapped there. No file of it is edited."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

# Called with the bound original and its arguments; what it returns is the call's answer.
Around = Callable[..., Any]
_WRAPPERS: set[Callable[..., Any]] = set()
_BUSY: dict[tuple[str, Around], list[None]] = {}


def wrap(cls: type, name: str, around: Around) -> bool:
    """Call ``around(self, call, *arguments)`` in place of a method, wherever ``cls`` or its bases define it.

    ``call`` takes the same arguments. A method that calls the one it overrides counts once.
    What is wrapped already stays so. False where no class defines it: this version of AI Toolkit has none.
    """
    busy = _BUSY.setdefault((name, around), [])
    found = False
    for base in cls.__mro__:
        method = base.__dict__.get(name)
        if isinstance(method, FunctionType):
            found = True
            if method not in _WRAPPERS:
                wrapper = _wrapped(method, around, busy)
                _WRAPPERS.add(wrapper)
                setattr(base, name, wrapper)
    return found


def _wrapped(method: FunctionType, around: Around, busy: list[None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if busy:
            return method(self, *args, **kwargs)
        busy.append(None)
        try:
            return around(self, functools.partial(method, self), *args, **kwargs)
        finally:
            busy.pop()

    return wrapper
