"""A UNet of Stable Diffusion 1.5 whose modules are called as there, so that a LoRA of it is called so too."""

from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional

from .model import ModelMixin, attend, timestep_embedding


class ResnetBlock2D(nn.Module):
    def __init__(self, channels, out, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, channels), nn.Conv2d(channels, out, 3, padding=1)
        self.time_emb_proj = nn.Linear(time, out)
        self.norm2, self.conv2 = nn.GroupNorm(8, out), nn.Conv2d(out, out, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(channels, out, 1) if channels != out else None

    def forward(self, x, time):
        hidden = self.conv1(functional.silu(self.norm1(x)))
        hidden = hidden + self.time_emb_proj(functional.silu(time))[:, :, None, None]
        hidden = self.conv2(functional.silu(self.norm2(hidden)))
        return hidden + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class Attention(nn.Module):
    def __init__(self, channels, context, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(channels, channels, bias=False)
        self.to_k, self.to_v = nn.Linear(context, channels, bias=False), nn.Linear(context, channels, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(channels, channels), nn.Dropout(0.0)])

    def forward(self, x, context):
        return self.to_out[0](attend(self.to_q(x), self.to_k(context), self.to_v(context), self.heads))


class GEGLU(nn.Module):
    def __init__(self, channels, inner):
        super().__init__()
        self.proj = nn.Linear(channels, 2 * inner)

    def forward(self, x):
        hidden, gate = self.proj(x).chunk(2, dim=-1)
        return hidden * functional.gelu(gate)


class FeedForward(nn.Module):
    def __init__(self, channels):
        super().__init__()
        inner = 4 * channels
        self.net = nn.ModuleList([GEGLU(channels, inner), nn.Dropout(0.0), nn.Linear(inner, channels)])

    def forward(self, x):
        for part in self.net:
            x = part(x)
        return x


class BasicTransformerBlock(nn.Module):
    def __init__(self, channels, context, heads):
        super().__init__()
        self.norm1, self.attn1 = nn.LayerNorm(channels), Attention(channels, channels, heads)
        self.norm2, self.attn2 = nn.LayerNorm(channels), Attention(channels, context, heads)
        self.norm3, self.ff = nn.LayerNorm(channels), FeedForward(channels)

    def forward(self, x, context):
        hidden = self.norm1(x)
        x = x + self.attn1(hidden, hidden)
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class Transformer2DModel(nn.Module):
    def __init__(self, channels, context, heads):
        super().__init__()
        self.norm, self.proj_in = nn.GroupNorm(8, channels), nn.Conv2d(channels, channels, 1)
        self.transformer_blocks = nn.ModuleList([BasicTransformerBlock(channels, context, heads)])
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x, context):
        hidden = self.proj_in(self.norm(x)).flatten(2).transpose(1, 2)
        for block in self.transformer_blocks:
            hidden = block(hidden, context)
        return x + self.proj_out(hidden.transpose(1, 2).unflatten(2, x.shape[2:]))


class Sampler2D(nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=stride, padding=1)

    def forward(self, x):
        return self.conv(x)


class Block2D(nn.Module):
    """One resolution of the UNet: its resnets, attention after each where it has any, and the change of size."""

    def __init__(self, channels, out, time, context, heads, attentions):
        super().__init__()
        self.resnets = nn.ModuleList(ResnetBlock2D(each, out, time) for each in channels)
        if attentions:
            self.attentions = nn.ModuleList(Transformer2DModel(out, context, heads) for _ in range(attentions))

    def forward(self, number, x, time, context):
        x = self.resnets[number](x, time)
        attentions = getattr(self, "attentions", ())
        return attentions[number](x, context) if number < len(attentions) else x


class UNet2DConditionModel(ModelMixin):
    """Two resolutions, the lower one with attention to the text."""

    def __init__(self, in_channels=4, block_out_channels=(32, 64), cross_attention_dim=32, heads=8):
        super().__init__(
            in_channels=in_channels, block_out_channels=list(block_out_channels),
            cross_attention_dim=cross_attention_dim, heads=heads,
        )
        high, low = block_out_channels
        self.size, time = high, 4 * high
        more = (time, cross_attention_dim, heads)
        self.conv_in = nn.Conv2d(in_channels, high, 3, padding=1)
        self.time_embedding = nn.Sequential(nn.Linear(high, time), nn.SiLU(), nn.Linear(time, time))
        self.down_blocks = nn.ModuleList([Block2D([high], high, *more, 0), Block2D([high], low, *more, 1)])
        self.down_blocks[0].downsamplers = nn.ModuleList([Sampler2D(high, 2)])
        self.mid_block = Block2D([low, low], low, *more, 1)
        self.up_blocks = nn.ModuleList([
            Block2D([2 * low, low + high], low, *more, 2), Block2D([low + high, 2 * high], high, *more, 0),
        ])
        self.up_blocks[0].upsamplers = nn.ModuleList([Sampler2D(low, 1)])
        self.conv_norm_out, self.conv_out = nn.GroupNorm(8, high), nn.Conv2d(high, in_channels, 3, padding=1)

    def forward(self, sample, timestep, encoder_hidden_states):
        context = encoder_hidden_states
        timestep = torch.as_tensor(timestep, device=sample.device).expand(sample.shape[0])
        time = self.time_embedding(timestep_embedding(timestep, self.size).to(sample.dtype))
        x = self.conv_in(sample)
        kept = [x]
        for block in self.down_blocks:
            x = self.block(block, 0, x, time, context)
            kept.append(x)
            for smaller in getattr(block, "downsamplers", ()):
                x = smaller(x)
                kept.append(x)
        x = self.block(self.mid_block, 0, x, time, context)
        x = self.block(self.mid_block, 1, x, time, context)
        for block in self.up_blocks:
            for number in range(2):
                x = self.block(block, number, torch.cat([x, kept.pop()], dim=1), time, context)
            for larger in getattr(block, "upsamplers", ()):
                x = larger(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return SimpleNamespace(sample=self.conv_out(functional.silu(self.conv_norm_out(x))))
