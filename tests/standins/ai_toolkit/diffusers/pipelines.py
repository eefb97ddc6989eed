from types import SimpleNamespace

import torch
from PIL import Image


class DiffusionPipeline:
    """The parts of a model, put together to make pictures."""

    def __init__(self, **parts):
        self.parts = tuple(parts)
        for name, part in parts.items():
            setattr(self, name, part)

    def to(self, *args, **kwargs):
        for name in self.parts:
            if isinstance(getattr(self, name), torch.nn.Module):
                getattr(self, name).to(*args, **kwargs)
        return self

    def set_progress_bar_config(self, **config):
        pass

    def pictures(self, latents):
        vae = self.vae
        pixels = vae.decode(latents.to(vae.dtype) / vae.scaling_factor + vae.shift_factor).sample
        pixels = ((pixels.float() / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu()
        return SimpleNamespace(images=[Image.fromarray(each.numpy()) for each in pixels])


class StableDiffusionPipeline(DiffusionPipeline):
    def __init__(self, vae, text_encoder, tokenizer, unet, scheduler):
        super().__init__(vae=vae, text_encoder=text_encoder, tokenizer=tokenizer, unet=unet, scheduler=scheduler)

    def __call__(
        self, prompt_embeds, negative_prompt_embeds, height, width, num_inference_steps=20, guidance_scale=7.5,
        latents=None, generator=None,
    ):
        if latents is None:
            latents = torch.randn((1, 4, height // 8, width // 8), generator=generator).to(prompt_embeds)
        both = torch.cat([negative_prompt_embeds, prompt_embeds])
        for timestep, then in self.scheduler.steps(num_inference_steps):
            without, given = self.unet(torch.cat([latents, latents]), timestep, encoder_hidden_states=both).sample.chunk(2)
            latents = self.scheduler.step(without + guidance_scale * (given - without), timestep, then, latents)
        return self.pictures(latents)


class ZImagePipeline(DiffusionPipeline):
    def __init__(self, scheduler, vae, text_encoder, tokenizer, transformer):
        super().__init__(
            scheduler=scheduler, vae=vae, text_encoder=text_encoder, tokenizer=tokenizer, transformer=transformer
        )

    def encode_prompt(self, prompt, device):
        prompts = [prompt] if isinstance(prompt, str) else prompt
        return [self.text_encoder(self.tokenizer(each).to(device))[0] for each in prompts]

    def __call__(
        self, prompt_embeds, negative_prompt_embeds, height, width, num_inference_steps=8, guidance_scale=0.0,
        latents=None, generator=None,
    ):
        channels = self.transformer.config["in_channels"]
        if latents is None:
            latents = torch.randn((1, channels, height // 8, width // 8), generator=generator).to(prompt_embeds[0])
        for sigma, then in self.scheduler.steps(num_inference_steps):
            caption = [*prompt_embeds, *negative_prompt_embeds] if guidance_scale > 0 else prompt_embeds
            time = torch.full((len(caption),), 1.0 - sigma, device=latents.device)
            found = torch.stack(self.transformer([latents[0][:, None]] * len(caption), time, caption)[0]).squeeze(2)
            velocity = -found[:1]
            if guidance_scale > 0:
                velocity = velocity + guidance_scale * (velocity + found[1:])
            latents = latents + (then - sigma) * velocity
        return self.pictures(latents)
