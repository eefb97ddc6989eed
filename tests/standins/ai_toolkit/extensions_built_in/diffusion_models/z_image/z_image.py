import torch
from diffusers import AutoencoderKL, ZImagePipeline, ZImageTransformer2DModel

from toolkit.accelerator import unwrap_model
from toolkit.models.base_model import BaseModel, quantized
from toolkit.prompt_utils import PromptEmbeds
from toolkit.sampler import FlowMatchScheduler
from toolkit.text_encoder import TextEncoder, Tokenizer


class ZImageModel(BaseModel):
    arch = "zimage"

    def __init__(self, device, model_config, dtype="bf16", custom_pipeline=None, noise_scheduler=None, **kwargs):
        super().__init__(device, model_config, dtype, custom_pipeline, noise_scheduler, **kwargs)
        self.is_flow_matching = self.is_transformer = True
        self.target_lora_modules = ["ZImageTransformer2DModel"]

    @staticmethod
    def get_train_scheduler():
        return FlowMatchScheduler(shift=3.0)

    def get_bucket_divisibility(self):
        return 16  # 8 of the VAE, 2 of the patches

    def get_base_model_version(self):
        return "zimage"

    def get_transformer_block_names(self):
        return ["layers"]

    def load_model(self):
        folder, dtype = self.model_config.name_or_path, self.torch_dtype
        self.print_and_status_update("Loading ZImage model")
        self.print_and_status_update("Loading transformer")
        transformer = ZImageTransformer2DModel.from_pretrained(folder, subfolder="transformer", torch_dtype=dtype)
        if self.model_config.quantize:
            self.print_and_status_update("Quantizing Transformer")
            quantized(transformer)
        if self.model_config.low_vram:
            self.print_and_status_update("Moving transformer to CPU")
            transformer.to("cpu")
        self.print_and_status_update("Text Encoder")
        encoder = TextEncoder.from_pretrained(folder, subfolder="text_encoder", torch_dtype=dtype).to(self.device_torch)
        self.print_and_status_update("Loading VAE")
        vae = AutoencoderKL.from_pretrained(folder, subfolder="vae", torch_dtype=dtype)
        self.noise_scheduler = self.get_train_scheduler()
        self.print_and_status_update("Making pipe")
        pipe = ZImagePipeline(self.noise_scheduler, vae, encoder, Tokenizer(), None)
        pipe.transformer = transformer
        self.print_and_status_update("Preparing Model")
        if not self.low_vram:
            transformer.to(self.device_torch)
        encoder.requires_grad_(False)
        encoder.eval()
        self.vae, self.text_encoder, self.tokenizer = vae, [encoder], [pipe.tokenizer]
        self.model, self.pipeline = transformer, pipe
        self.print_and_status_update("Model Loaded")

    def get_generation_pipeline(self):
        pipeline = ZImagePipeline(
            scheduler=self.get_train_scheduler(), vae=unwrap_model(self.vae),
            text_encoder=unwrap_model(self.text_encoder[0]), tokenizer=self.tokenizer[0],
            transformer=unwrap_model(self.transformer),
        )
        return pipeline.to(self.device_torch)

    def generate_single_image(self, pipeline, gen_config, conditional_embeds, unconditional_embeds, generator, extra):
        multiple = self.get_bucket_divisibility()
        gen_config.width, gen_config.height = (
            int(side // multiple * multiple) for side in (gen_config.width, gen_config.height)
        )
        return pipeline(
            prompt_embeds=conditional_embeds.text_embeds,
            negative_prompt_embeds=unconditional_embeds.text_embeds,
            height=gen_config.height,
            width=gen_config.width,
            num_inference_steps=gen_config.num_inference_steps,
            guidance_scale=max(0.0, gen_config.guidance_scale - 1.0),
            latents=gen_config.latents,
            generator=generator,
            **extra,
        ).images[0]

    def get_noise_prediction(self, latent_model_input, timestep, text_embeddings):
        latents = list(latent_model_input.unsqueeze(2).unbind(dim=0))
        found = self.transformer(latents, (1000 - timestep) / 1000, text_embeddings.text_embeds)[0]
        return -torch.stack([each.float() for each in found]).squeeze(2)

    def get_prompt_embeds(self, prompt) -> PromptEmbeds:
        return PromptEmbeds(self.pipeline.encode_prompt(prompt, device=self.device_torch))

    def convert_lora_weights_before_save(self, state_dict):
        return {name.replace("transformer.", "diffusion_model."): weight for name, weight in state_dict.items()}

    def convert_lora_weights_before_load(self, state_dict):
        return {name.replace("diffusion_model.", "transformer."): weight for name, weight in state_dict.items()}
