import torch
from diffusers import AutoencoderKL, StableDiffusionPipeline, UNet2DConditionModel
from tqdm import tqdm

from toolkit.accelerator import unwrap_model
from toolkit.basic import flush
from toolkit.models.base_model import BlankNetwork, Devices, quantized
from toolkit.prompt_utils import PromptEmbeds
from toolkit.sampler import get_sampler
from toolkit.text_encoder import TextEncoder, Tokenizer


class StableDiffusion(Devices):
    """The model class of the older kind: it calls the pipeline inline."""

    arch = "sd1"

    def __init__(self, device, model_config, dtype="fp16", custom_pipeline=None, noise_scheduler=None, **kwargs):
        self.begin(device, model_config, dtype, noise_scheduler)
        self.is_transformer = self.is_flow_matching = False
        self.unet = None

    def get_bucket_divisibility(self):
        return 16  # 8 of the VAE, 2 of the UNet

    def get_base_model_version(self):
        return "sd_1.5"

    def load_model(self):
        folder, dtype = self.model_config.name_or_path, self.torch_dtype
        parts = {"vae": AutoencoderKL, "text_encoder": TextEncoder, "unet": UNet2DConditionModel}
        loaded = {
            name: parts[name].from_pretrained(folder, subfolder=name, torch_dtype=dtype).to(self.device_torch)
            for name in tqdm(parts, desc="Loading pipeline components...")
        }
        self.tokenizer = Tokenizer(77)
        self.pipeline = StableDiffusionPipeline(**loaded, tokenizer=self.tokenizer, scheduler=self.noise_scheduler)
        self.vae, self.text_encoder, self.unet = loaded["vae"], loaded["text_encoder"], loaded["unet"]
        self.vae.eval()
        self.vae.requires_grad_(False)
        self.text_encoder.eval()
        self.text_encoder.requires_grad_(False)
        if self.model_config.quantize:
            self.print_and_status_update("Quantizing transformer")
            quantized(self.unet)

    def save_device_state(self):
        # An unloaded encoder has no text_model: with text embeddings cached, previews of this class fail, as they do there.
        requires_grad = self.text_encoder.text_model.final_layer_norm.weight.requires_grad
        super().save_device_state()
        self.device_state["text_encoder"]["requires_grad"] = requires_grad

    def encode_prompt(self, prompt, prompt2=None, **kwargs) -> PromptEmbeds:
        prompts = prompt if isinstance(prompt, list) else [prompt]
        tokens = torch.cat([self.tokenizer(each) for each in prompts]).to(self.text_encoder.device)
        return PromptEmbeds(self.text_encoder(tokens))

    def predict_noise(self, latents, conditional_embeddings, timestep):
        return self.unet(latents, timestep, encoder_hidden_states=conditional_embeddings.text_embeds).sample

    def generate_images(self, image_configs, sampler=None, pipeline=None):
        network = unwrap_model(self.network)
        merge_multiplier = 1.0
        flush()
        if network is not None:
            network.eval()
            multipliers = {each.network_multiplier for each in image_configs}
            if len(multipliers) == 1 and network.can_merge_in:
                self.unet.to(self.device_torch)
                merge_multiplier = multipliers.pop()
                network.merge_in(merge_weight=merge_multiplier)
        else:
            network = BlankNetwork()
        self.save_device_state()
        self.set_device_state_preset("generate")
        rng_state = torch.get_rng_state()
        if pipeline is None:
            noise_scheduler = self.noise_scheduler if sampler is None else get_sampler(sampler)
            pipeline = StableDiffusionPipeline(
                vae=self.vae, unet=self.unet, text_encoder=self.text_encoder, tokenizer=self.tokenizer,
                scheduler=noise_scheduler,
            ).to(self.device_torch)
            pipeline.set_progress_bar_config(disable=True)
        start_multiplier = network.multiplier
        with network, torch.no_grad():
            for number in tqdm(range(len(image_configs)), desc="Generating Images", leave=False):
                gen_config = image_configs[number]
                network.multiplier = gen_config.network_multiplier
                generator = torch.manual_seed(gen_config.seed)
                if self.sample_prompts_cache is not None:
                    conditional = self.sample_prompts_cache[number]["conditional"]
                    unconditional = self.sample_prompts_cache[number]["unconditional"]
                else:
                    conditional = self.encode_prompt(gen_config.prompt)
                    unconditional = self.encode_prompt(gen_config.negative_prompt)
                image = pipeline(
                    prompt_embeds=conditional.to(self.device_torch, dtype=self.unet.dtype).text_embeds,
                    negative_prompt_embeds=unconditional.to(self.device_torch, dtype=self.unet.dtype).text_embeds,
                    height=gen_config.height,
                    width=gen_config.width,
                    num_inference_steps=gen_config.num_inference_steps,
                    guidance_scale=gen_config.guidance_scale,
                    latents=gen_config.latents,
                    generator=generator,
                ).images[0]
                gen_config.save_image_atomic(image, number)
                gen_config.log_image(image, number)
                self._after_sample_image(number, len(image_configs))
                flush()
        del pipeline
        torch.set_rng_state(rng_state)
        self.restore_device_state()
        network.train()
        network.multiplier = start_multiplier
        self.unet.to(self.device_torch, dtype=self.torch_dtype)
        if network.is_merged_in:
            network.merge_out(merge_multiplier)
        flush()
