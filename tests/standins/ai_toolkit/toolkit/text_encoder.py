"""A small text encoder that reads bytes, in place of transformers'."""

import torch
from diffusers.model import ModelMixin, attend, timestep_embedding
from torch import nn
from torch.nn import functional


class Tokenizer:
    """The bytes of a text; padded to a length where one is given."""

    def __init__(self, length=None):
        self.length = length

    def __call__(self, text):
        numbers = [*text.encode("utf-8"), 256][: self.length]
        return torch.tensor([numbers + [256] * ((self.length or 0) - len(numbers))])


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(size, size) for _ in range(4))
        self.up, self.down = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)

    def forward(self, x):
        hidden = self.norm1(x)
        x = x + self.to_out(attend(self.to_q(hidden), self.to_k(hidden), self.to_v(hidden), 4))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class TextEncoder(ModelMixin):
    def __init__(self, size=32, layers=2):
        super().__init__(size=size, layers=layers)
        self.size, self.words = size, nn.Embedding(257, size)
        self.layers = nn.ModuleList(Layer(size) for _ in range(layers))
        self.final_layer_norm = nn.LayerNorm(size)

    @property
    def text_model(self):
        return self

    def forward(self, tokens):
        places = timestep_embedding(torch.arange(tokens.shape[1], device=tokens.device), self.size)
        x = self.words(tokens) + places.to(self.dtype)
        for layer in self.layers:
            x = self.block(layer, x)
        return self.final_layer_norm(x)
