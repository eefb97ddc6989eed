import json
import os

import torch
from safetensors.torch import load_file, save_file

WEIGHTS = "diffusion_pytorch_model.safetensors"


class ModelMixin(torch.nn.Module):
    """A model that is kept in a folder as its configuration and its weights."""

    def __init__(self, **config):
        super().__init__()
        self.config = config
        self.gradient_checkpointing = False

    @property
    def dtype(self):
        return next(self.parameters()).dtype

    @property
    def device(self):
        return next(self.parameters()).device

    def enable_gradient_checkpointing(self):
        self.gradient_checkpointing = True

    def block(self, module, *args):
        """Run a block, and again in the backward pass where its activations are not kept."""
        if self.gradient_checkpointing and torch.is_grad_enabled():
            return torch.utils.checkpoint.checkpoint(module, *args, use_reentrant=False)
        return module(*args)

    def save_pretrained(self, folder):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump({"_class_name": type(self).__name__, **self.config}, file)
        save_file({name: weight.contiguous() for name, weight in self.state_dict().items()}, os.path.join(folder, WEIGHTS))

    @classmethod
    def from_pretrained(cls, folder, subfolder="", torch_dtype=torch.float32):
        folder = os.path.join(folder, subfolder)
        with open(os.path.join(folder, "config.json")) as file:
            config = json.load(file)
        config.pop("_class_name", None)
        model = cls(**config)
        model.load_state_dict(load_file(os.path.join(folder, WEIGHTS)))
        return model.to(torch_dtype)


def timestep_embedding(timesteps, size):
    """Sines and cosines of the timestep, one row each."""
    half = size // 2
    frequencies = torch.exp(-torch.arange(half, dtype=torch.float32, device=timesteps.device) * (9.21 / half))
    angles = timesteps.float()[:, None] * frequencies[None]
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def attend(query, key, value, heads):
    """Attention over (batch, tokens, channels)."""
    query, key, value = (each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in (query, key, value))
    return torch.nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
