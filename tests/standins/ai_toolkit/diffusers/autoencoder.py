from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional

from .model import ModelMixin, attend


class ResnetBlock(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, channels), nn.Conv2d(channels, out, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, out), nn.Conv2d(out, out, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x):
        hidden = self.conv1(functional.silu(self.norm1(x)))
        return self.conv_shortcut(x) + self.conv2(functional.silu(self.norm2(hidden)))


class Attention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.group_norm = nn.GroupNorm(8, channels)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(channels, channels) for _ in range(4))

    def forward(self, x):
        hidden = self.group_norm(x).flatten(2).transpose(1, 2)
        hidden = self.to_out(attend(self.to_q(hidden), self.to_k(hidden), self.to_v(hidden), 1))
        return x + hidden.transpose(1, 2).unflatten(2, x.shape[2:])


def middle(channels):
    return nn.Sequential(ResnetBlock(channels, channels), Attention(channels), ResnetBlock(channels, channels))


class Encoder(nn.Module):
    def __init__(self, sizes, latent):
        super().__init__()
        self.conv_in = nn.Conv2d(3, sizes[0], 3, padding=1)
        self.down_blocks = nn.ModuleList(
            nn.Sequential(
                ResnetBlock(sizes[max(0, number - 1)], size),
                nn.Conv2d(size, size, 3, stride=2, padding=1) if number < len(sizes) - 1 else nn.Identity(),
            )
            for number, size in enumerate(sizes)
        )
        self.mid_block = middle(sizes[-1])
        self.conv_norm_out, self.conv_out = nn.GroupNorm(8, sizes[-1]), nn.Conv2d(sizes[-1], 2 * latent, 3, padding=1)

    def forward(self, x):
        x = self.conv_in(x)
        for block in self.down_blocks:
            x = block(x)
        return self.conv_out(functional.silu(self.conv_norm_out(self.mid_block(x))))


class Decoder(nn.Module):
    def __init__(self, sizes, latent):
        super().__init__()
        sizes = sizes[::-1]
        self.conv_in = nn.Conv2d(latent, sizes[0], 3, padding=1)
        self.mid_block = middle(sizes[0])
        self.up_blocks = nn.ModuleList(
            nn.ModuleList([
                ResnetBlock(sizes[max(0, number - 1)], size),
                ResnetBlock(size, size),
                nn.Conv2d(size, size, 3, padding=1) if number < len(sizes) - 1 else nn.Identity(),
            ])
            for number, size in enumerate(sizes)
        )
        self.conv_norm_out, self.conv_out = nn.GroupNorm(8, sizes[-1]), nn.Conv2d(sizes[-1], 3, 3, padding=1)

    def forward(self, x):
        x = self.mid_block(self.conv_in(x))
        for number, (first, second, last) in enumerate(self.up_blocks):
            x = second(first(x))
            if number < len(self.up_blocks) - 1:
                x = last(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.conv_out(functional.silu(self.conv_norm_out(x)))


class Distribution:
    def __init__(self, moments):
        self.mean, deviation = moments.chunk(2, dim=1)
        self.std = torch.exp(0.5 * deviation.clamp(-30, 20))

    def sample(self):
        return self.mean + self.std * torch.randn_like(self.mean)


class AutoencoderKL(ModelMixin):
    def __init__(self, latent_channels=4, block_out_channels=(16, 16, 32, 32), scaling_factor=0.18215, shift_factor=0.0):
        super().__init__(
            latent_channels=latent_channels, block_out_channels=list(block_out_channels),
            scaling_factor=scaling_factor, shift_factor=shift_factor,
        )
        self.scaling_factor, self.shift_factor = scaling_factor, shift_factor
        self.encoder = Encoder(list(block_out_channels), latent_channels)
        self.decoder = Decoder(list(block_out_channels), latent_channels)

    def encode(self, x):
        return SimpleNamespace(latent_dist=Distribution(self.encoder(x)))

    def decode(self, z):
        return SimpleNamespace(sample=self.decoder(z))
