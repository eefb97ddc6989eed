"""A transformer after Z-Image's, whose modules are called as there."""

import torch
from torch import nn
from torch.nn import functional

from .model import ModelMixin, timestep_embedding

MULTIPLE = 32  # of tokens in a row


def turned(x, angles):
    """The channels of (batch, tokens, heads, channels) turned pairwise by the token's angles."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)[:, None]).flatten(-2).to(x.dtype)


def angles_of(tokens, size):
    frequencies = 1.0 / 256.0 ** (torch.arange(0, size, 2, dtype=torch.float32, device=tokens.device) / size)
    return torch.arange(tokens.shape[1], device=tokens.device)[:, None] * frequencies


def filled(tokens, padding):
    """Tokens with padding up to a multiple."""
    missing = -tokens.shape[1] % MULTIPLE
    return torch.cat([tokens, padding.expand(1, missing, -1)], dim=1) if missing else tokens


class Attention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norm_q, self.norm_k = nn.RMSNorm(size // heads), nn.RMSNorm(size // heads)
        self.to_q, self.to_k, self.to_v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(size, size, bias=False)])

    def forward(self, x):
        query, key, value = (part(x).unflatten(-1, (self.heads, -1)) for part in (self.to_q, self.to_k, self.to_v))
        angles = angles_of(x, query.shape[-1])
        query, key = turned(self.norm_q(query), angles), turned(self.norm_k(key), angles)
        heads = (each.transpose(1, 2) for each in (query, key, value))
        return self.to_out[0](functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))


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
        self.x_embedder = nn.Linear(4 * in_channels, dim)
        self.cap_embedder = nn.Sequential(nn.RMSNorm(cap_feat_dim), nn.Linear(cap_feat_dim, dim))
        time = min(dim, 256)
        self.t_embedder = nn.Sequential(nn.Linear(256, 1024), nn.SiLU(), nn.Linear(1024, time))
        self.noise_refiner = nn.ModuleList(Layer(dim, n_heads) for _ in range(n_refiner_layers))
        self.context_refiner = nn.ModuleList(Layer(dim, n_heads, False) for _ in range(n_refiner_layers))
        self.layers = nn.ModuleList(Layer(dim, n_heads) for _ in range(n_layers))
        self.x_pad_token, self.cap_pad_token = (nn.Parameter(torch.zeros(1, 1, dim)) for _ in range(2))
        self.final_layer = nn.Linear(dim, 4 * in_channels)

    def forward(self, x, t, cap_feats):
        time = self.t_embedder(timestep_embedding(t * 1000.0, 256).to(self.dtype))
        return [self.one(*each) for each in zip(x, time.split(1), cap_feats)], {}

    def one(self, picture, time, caption):
        height, width = picture.shape[2:]
        patches = functional.pixel_unshuffle(picture[:, 0][None], 2)
        tokens = self.x_embedder(patches.flatten(2).transpose(1, 2))
        count = tokens.shape[1]
        tokens = filled(tokens, self.x_pad_token)
        words = filled(self.cap_embedder(caption[None]), self.cap_pad_token)
        for layer in self.noise_refiner:
            tokens = self.block(layer, tokens, time)
        for layer in self.context_refiner:
            words = self.block(layer, words)
        row = torch.cat([tokens, words], dim=1)
        for layer in self.layers:
            row = self.block(layer, row, time)
        out = self.final_layer(row[:, :count]).transpose(1, 2).unflatten(2, (height // 2, width // 2))
        return functional.pixel_shuffle(out, 2)[0][:, None]
