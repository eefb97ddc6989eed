"""What AI Toolkit puts back at the end of its previews, put back where an error kept it from doing so.

The list is that of ``generate_images`` (toolkit/models/base_model.py, toolkit/stable_diffusion_model.py) and of
``BaseSDTrainProcess.sample``.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import Any

from .wrapping import wrap


def release() -> None:
    """Give what nothing refers to back to the card. Call it after the ``except`` block: its frames hold tensors."""
    gc.collect()
    torch = sys.modules["torch"]
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class Merges:
    """How much of each LoRA module is merged into the base weights right now.

    ``merge_in`` of the network goes over its modules one by one; where memory runs out between two of them, only what
    was merged may be taken out again.
    """

    def __init__(self) -> None:
        self._weights: dict[Any, float] = {}

    def watch(self, network: Any) -> None:
        for cls in {type(module) for module in network.get_all_modules()}:
            wrap(cls, "merge_in", self._merge)

    def take_out(self) -> None:
        for module, weight in list(self._weights.items()):
            if weight:
                module.merge_in(-weight)

    def _merge(self, module: Any, call: Any, merge_weight: float = 1.0) -> Any:
        result = call(merge_weight)
        total = self._weights.pop(module, 0.0) + merge_weight
        if total:
            self._weights[module] = total
        return result


class Before:
    """The state of a training process before its previews, to go back to."""

    def __init__(self, process: Any, merges: Merges) -> None:
        torch = sys.modules["torch"]
        self.process, self.merges = process, merges
        self.random = torch.get_rng_state()
        self.random_cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
        self.network = _unwrapped(getattr(process.sd, "network", None))
        self.device_state = getattr(process.sd, "device_state", None)
        self.assistant = getattr(process.sd, "assistant_lora", None)
        self.assistant_active = getattr(self.assistant, "is_active", None)
        self.assistant_device = _device(self.assistant)
        self.adapter_sampling = getattr(process.adapter, "is_sampling", None)
        if self.network is not None:
            self.active, self.training = self.network.is_active, self.network.training
            self.multiplier = self.network.multiplier
            merges.watch(self.network)

    def restore(self, training: bool) -> None:
        """Put everything back; raises torch's error where even that does not fit."""
        torch, process, sd = sys.modules["torch"], self.process, self.process.sd
        release()
        # The encoders and the VAE first: where they were, there is room for the rest.
        if getattr(sd, "device_state", None) is not self.device_state:
            sd.restore_device_state()
        if self.network is not None:
            sd.unet.to(sd.device_torch)
            self.merges.take_out()
            self.network.is_merged_in = False
            self.network.is_active = self.active
            self.network.train(self.training)
            self.network.multiplier = self.multiplier
        if self.assistant is not None:
            self.assistant.is_active = self.assistant_active
            if self.assistant_device is not None:
                self.assistant.force_to(self.assistant_device, sd.torch_dtype)
        if process.ema is not None:
            process.ema.train()
        if self.adapter_sampling is not None:
            process.adapter.is_sampling = self.adapter_sampling
        if training:
            sd.set_device_state(process.train_device_state_preset)
            process.ensure_params_requires_grad()
            process.optimizer.zero_grad()
        torch.set_rng_state(self.random)
        if self.random_cuda is not None:
            torch.cuda.set_rng_state(self.random_cuda)
        release()


def _unwrapped(network: Any) -> Any:
    """The network itself, without what accelerate put around it."""
    return getattr(network, "module", network)


def _device(module: Any) -> Any:
    with contextlib.suppress(AttributeError, StopIteration):
        return next(module.parameters()).device
    return None
