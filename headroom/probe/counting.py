"""What tells the meter of every tensor on the card, in a torch that has none.

Two modes of torch work together. One sees the operations, and counts what they make: on the card is what was asked
for there, and what was made from something that is. The other sees the calls of Python: a tensor on the card says so,
and moving between card and host makes the copy that it makes on a GPU. A file read straight to ``cpu:0`` is not seen.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

from .meter import CARD, Meter


@contextmanager
def counting(torch: ModuleType, meter: Meter) -> Iterator[None]:
    """Count the storages of this thread's tensors while this lasts, each until its end."""
    from torch.overrides import TorchFunctionMode
    from torch.utils import checkpoint
    from torch.utils._python_dispatch import TorchDispatchMode

    process = os.getpid()
    plain = torch._C._disabled_torch_dispatch_impl
    card, host = torch.device(CARD), torch.device("cpu")
    device_of = torch.Tensor.device.__get__
    ends: dict[int, weakref.ref[Any]] = {}
    moving: list[Any] = []  # where that goes which is copied right now

    def parts(tensor: Any) -> list[Any]:
        """The tensors that hold the data: those that a quantized one is made of."""
        if type(tensor).__torch_dispatch__ == plain:
            return [tensor] if tensor.layout == torch.strided and device_of(tensor).type == "cpu" else []
        names = tensor.__tensor_flatten__()[0] if hasattr(tensor, "__tensor_flatten__") else ()
        return [part for name in names for part in parts(getattr(tensor, name))]

    def tensors(value: Any) -> Iterator[Any]:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for each in value:
                yield from tensors(each)

    def keys(value: Any) -> list[int]:
        return [part.untyped_storage()._cdata for tensor in tensors(value) for part in parts(tensor)]

    def on_card(tensor: Any) -> bool:
        return any(part.untyped_storage()._cdata in meter for part in parts(tensor))

    def count(tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if not meter.add(key, storage.nbytes()):
            return

        def end(_: Any) -> None:
            ends.pop(key, None)
            meter.drop(key)

        ends[key] = weakref.ref(storage, end)

    class Counting(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, operation: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if any(kind.__torch_dispatch__ != plain for kind in types):
                # Quantized weights are tensors of tensors; they do the operation on what they hold, which is counted.
                return NotImplemented
            kwargs = kwargs or {}
            result = operation(*args, **kwargs)
            if os.getpid() != process:
                return result  # a data loader's worker, forked with the mode on
            with torch._C.DisableTorchFunction():
                given = keys((args, list(kwargs.values())))
                asked = moving[-1] if moving else kwargs.get("device")
                if not meter.apart or (any(key in meter for key in given) if asked is None else asked == card):
                    for leaf in tensors(result):
                        for part in parts(leaf):
                            if not meter.apart or part.untyped_storage()._cdata not in given:
                                count(part)
            return result

    class Placing(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if not meter.apart or os.getpid() != process:
                return function(*args, **kwargs)
            if function == device_of:
                real = function(*args)
                return card if real == host and on_card(args[0]) else real
            if function is torch.Tensor.to:
                return move(*args, **kwargs)
            if function is torch.Tensor.cpu:
                return move(args[0], host)
            return function(*args, **kwargs)

    def move(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """``Tensor.to`` in its three forms, where it has to do with the card; else as it is."""
        copy = kwargs.pop("copy", False)
        other = args[0] if args else kwargs.get("other")
        if isinstance(other, torch.Tensor):
            target, dtype, layout = card if on_card(other) else device_of(other), other.dtype, None
        else:
            target, dtype, _, layout = torch._C._nn._parse_to(*args, **kwargs)
        real = device_of(tensor)
        more = {"copy": copy, "memory_format": torch.preserve_format if layout is None else layout}
        dtype = tensor.dtype if dtype is None else dtype
        if target is not None and (target.type != "cpu" or real.type != "cpu"):
            return tensor.to(target, dtype, **more)
        if target is None or (target == card) == on_card(tensor):
            return tensor.to(dtype, **more)
        moving.append(target)
        try:
            return tensor.to(dtype, **(more | {"copy": True}))
        finally:
            moving.pop()

    placing = Placing()
    with _as_cpu(torch), _without_devices(checkpoint), _in_backward(torch, placing), Counting(), placing:
        yield


@contextmanager
def _as_cpu(torch: ModuleType) -> Iterator[None]:
    """Let no quantized tensor be made for a device that its parts do not report."""
    make = torch.Tensor._make_wrapper_subclass

    def made(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cpu":
            kwargs["device"] = torch.device("cpu")
        return make(*args, **kwargs)

    torch.Tensor._make_wrapper_subclass = staticmethod(made)
    try:
        yield
    finally:
        torch.Tensor._make_wrapper_subclass = staticmethod(make)


@contextmanager
def _in_backward(torch: ModuleType, mode: AbstractContextManager[Any]) -> Iterator[None]:
    """Let the mode see the backward pass, which is one call to it: checkpoints run forward again in there."""
    run = torch.autograd._engine_run_backward

    def run_seen(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return run(*args, **kwargs)

    torch.autograd._engine_run_backward = run_seen
    try:
        yield
    finally:
        torch.autograd._engine_run_backward = run


@contextmanager
def _without_devices(checkpoint: ModuleType) -> Iterator[None]:
    """Let checkpoints compare shapes and types alone: some look at a tensor from where it cannot tell its place."""
    checks = getattr(checkpoint, "_allowed_determinism_checks_to_fns", {})
    before = dict(checks)
    if "default" in checks:
        checks["default"] = lambda tensor: {"shape": tensor.shape, "dtype": tensor.dtype}
    try:
        yield
    finally:
        checks.update(before)
