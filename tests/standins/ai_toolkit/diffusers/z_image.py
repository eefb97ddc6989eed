"""A transformer after Z-Image's, whose modules are called as there."""

import torch
from torch import nn
from torch.nn import functional

from .model import ModelMixin, attend, timestep_embedding


class Attention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(size, size, bias=False)])

    def forward(self, x):
        return self.to_out[0](attend(self.to_q(x), self.to_k(x), self.to_v(x), self.heads))


class FeedForward(nn.Module):
    def __init__(self, size, inner):
        super().__init__()
        self.w1, self.w3 = nn.Linear(size, inner, bias=False), nn.Linear(size, inner, bias=False)
        self.w2 = nn.Linear(inner, size, bias=False)

    def forward(self, x):
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, size, heads, modulation=True):
        super().__init__()
        self.attention, self.feed_forward = Attention(size, heads), FeedForward(size, int(size / 3 * 8))
        self.attention_norm1, self.ffn_norm1 = nn.RMSNorm(size), nn.RMSNorm(size)
        if modulation:
            self.adaLN_modulation = nn.Sequential(nn.Linear(min(size, 256), 4 * size))

    def forward(self, x, time=None):
        scale = gate = scale2 = gate2 = 0.0
        if time is not None:
            scale, gate, scale2, gate2 = self.adaLN_modulation(time)[:, None].chunk(4, dim=-1)
            gate, gate2 = gate.tanh() - 1.0, gate2.tanh() - 1.0
        x = x + (1.0 + gate) * self.attention(self.attention_norm1(x) * (1.0 + scale))
        return x + (1.0 + gate2) * self.feed_forward(self.ffn_norm1(x) * (1.0 + scale2))


class ZImageTransformer2DModel(ModelMixin):
    """Tokens of the caption and of the picture in one row; takes and gives lists of pictures (channels, frames, y, x)."""

    def __init__(self, in_channels=16, dim=64, n_layers=2, n_refiner_layers=1, n_heads=2, cap_feat_dim=32):
        super().__init__(
            in_channels=in_channels, dim=dim, n_layers=n_layers, n_refiner_layers=n_refiner_layers, n_heads=n_heads,
            cap_feat_dim=cap_feat_dim,
        )
        self.dim = dim
        self.x_embedder = nn.Linear(4 * in_channels, dim)
        self.cap_embedder = nn.Sequential(nn.RMSNorm(cap_feat_dim), nn.Linear(cap_feat_dim, dim))
        time = min(dim, 256)
        self.t_embedder = nn.Sequential(nn.Linear(256, 1024), nn.SiLU(), nn.Linear(1024, time))
        self.noise_refiner = nn.ModuleList(Layer(dim, n_heads) for _ in range(n_refiner_layers))
        self.context_refiner = nn.ModuleList(Layer(dim, n_heads, False) for _ in range(n_refiner_layers))
        self.layers = nn.ModuleList(Layer(dim, n_heads) for _ in range(n_layers))
        self.final_layer = nn.Linear(dim, 4 * in_channels)

    def forward(self, x, t, cap_feats):
        time = self.t_embedder(timestep_embedding(t * 1000.0, 256).to(self.dtype))
        return [self.one(*each) for each in zip(x, time.split(1), cap_feats)], {}

    def one(self, picture, time, caption):
        channels, _, height, width = picture.shape
        patches = functional.pixel_unshuffle(picture[:, 0][None], 2)
        tokens = self.x_embedder(patches.flatten(2).transpose(1, 2))
        tokens = tokens + timestep_embedding(torch.arange(tokens.shape[1], device=tokens.device), self.dim).to(tokens.dtype)
        words = self.cap_embedder(caption[None])
        for layer in self.noise_refiner:
            tokens = self.block(layer, tokens, time)
        for layer in self.context_refiner:
            words = self.block(layer, words)
        row = torch.cat([tokens, words], dim=1)
        for layer in self.layers:
            row = self.block(layer, row, time)
        out = self.final_layer(row[:, : tokens.shape[1]]).transpose(1, 2).unflatten(2, (height // 2, width // 2))
        return functional.pixel_shuffle(out, 2)[0][:, None]
