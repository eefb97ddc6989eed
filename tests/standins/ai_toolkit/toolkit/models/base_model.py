import torch
from tqdm import tqdm

from toolkit.accelerator import unwrap_model
from toolkit.basic import flush
from toolkit.print import print_acc
from toolkit.prompt_utils import PromptEmbeds
from toolkit.train_tools import get_torch_dtype


class BlankNetwork:
    def __init__(self):
        self.multiplier = 1.0
        self.is_active, self.is_merged_in, self.can_merge_in = True, False, False

    def __enter__(self):
        self.is_active = True

    def __exit__(self, kind, error, frames):
        self.is_active = False

    def train(self):
        pass


class Devices:
    """Where the parts of a model lie, kept and put back; both kinds of models have it."""

    def each_encoder(self):
        return self.text_encoder if isinstance(self.text_encoder, list) else [self.text_encoder]

    def save_device_state(self):
        encoder = self.each_encoder()[0]
        self.device_state = {
            name: {"training": part.training, "device": part.device, "requires_grad": False}
            for name, part in (("vae", self.vae), ("unet", self.unet), ("text_encoder", encoder))
        }

    def restore_device_state(self):
        if self.device_state is None:
            return
        self.set_device_state(self.device_state)
        self.device_state = None

    def set_device_state(self, state):
        encoders = [("text_encoder", encoder) for encoder in self.each_encoder()]
        for name, part in (("vae", self.vae), ("unet", self.unet), *encoders):
            part.train(state[name]["training"])
            part.to(state[name]["device"])
            part.requires_grad_(state[name]["requires_grad"])
        flush()

    def set_device_state_preset(self, preset):
        self.save_device_state()
        active = {"cache_latents": ["vae"], "generate": ["vae", "unet", "text_encoder"]}.get(preset, [])
        self.set_device_state({
            name: {"training": False, "device": self.device_torch if name in active else "cpu", "requires_grad": False}
            for name in ("vae", "unet", "text_encoder")
        })

    def text_encoder_to(self, *args, **kwargs):
        for encoder in self.each_encoder():
            encoder.to(*args, **kwargs)

    def encode_images(self, images, device=None, dtype=None):
        device, dtype = device or self.device_torch, dtype or self.torch_dtype
        if self.vae.device != device:
            self.vae.to(device)
        images = torch.stack(list(images)).to(device, dtype=dtype)
        latents = self.vae.encode(images).latent_dist.sample()
        return ((latents - self.vae.shift_factor) * self.vae.scaling_factor).to(dtype)

    def inject_trigger_into_prompt(self, prompt, trigger=None, add_if_not_present=False):
        if trigger is None:
            return prompt
        prompt = prompt.replace("[trigger]", trigger)
        return prompt if trigger in prompt or not add_if_not_present else f"{trigger} {prompt}".strip()

    def add_noise(self, latents, noise, timesteps):
        return self.noise_scheduler.add_noise(latents, noise, timesteps)

    def get_loss_target(self, noise, batch, timesteps=None):
        return self.noise_scheduler.target(batch.latents.to(noise), noise).detach()

    def _after_sample_image(self, img_num, total_imgs):
        for hook in self._after_sample_img_hooks:
            hook(img_num, total_imgs)

    def add_after_sample_image_hook(self, hook):
        self._after_sample_img_hooks.append(hook)

    def _status_update(self, status):
        for hook in self._status_update_hooks:
            hook(status)

    def print_and_status_update(self, status):
        print_acc(status)
        self._status_update(status)

    def add_status_update_hook(self, hook):
        self._status_update_hooks.append(hook)

    def get_transformer_block_names(self):
        return None

    def convert_lora_weights_before_save(self, state_dict):
        return state_dict

    def convert_lora_weights_before_load(self, state_dict):
        return state_dict

    def get_model_to_train(self):
        return self.unet

    def begin(self, device, model_config, dtype, noise_scheduler):
        self.device = str(device)
        self.device_torch = torch.device(device)
        self.model_config = model_config
        self.dtype, self.torch_dtype = dtype, get_torch_dtype(dtype)
        self.noise_scheduler = noise_scheduler
        self.low_vram = model_config.low_vram
        self.vae = self.text_encoder = self.tokenizer = self.pipeline = self.network = None
        self.refiner_unet = self.adapter = self.assistant_lora = self.device_state = self.sample_prompts_cache = None
        self.is_multistage = False
        self.is_xl = self.is_flux = self.is_lumina2 = False
        self._after_sample_img_hooks, self._status_update_hooks = [], []


def quantized(model):
    """The weights of linear layers rounded to 8 bits; they stay as wide as they were."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                step = module.weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
                module.weight.copy_((module.weight / step).round() * step)


class BaseModel(Devices):
    """A model class of the newer kind: previews one by one, in ``generate_single_image``."""

    arch = None

    def __init__(self, device, model_config, dtype="bf16", custom_pipeline=None, noise_scheduler=None, **kwargs):
        self.begin(device, model_config, dtype, noise_scheduler)
        self.model = None
        self.is_transformer, self.is_flow_matching = False, False

    @property
    def unet(self):
        return self.model

    @unet.setter
    def unet(self, value):
        self.model = value

    transformer = unet

    def load_model(self):
        raise NotImplementedError

    def get_generation_pipeline(self):
        raise NotImplementedError

    def generate_single_image(self, pipeline, gen_config, conditional_embeds, unconditional_embeds, generator, extra):
        raise NotImplementedError

    def get_prompt_embeds(self, prompt) -> PromptEmbeds:
        raise NotImplementedError

    def encode_prompt(self, prompt, prompt2=None, **kwargs) -> PromptEmbeds:
        return self.get_prompt_embeds(prompt if isinstance(prompt, list) else [prompt])

    def predict_noise(self, latents, conditional_embeddings, timestep):
        return self.get_noise_prediction(latents, timestep, conditional_embeddings)

    def generate_images(self, image_configs, sampler=None, pipeline=None):
        network = self.network
        merge_multiplier = 1.0
        flush()
        if network is not None:
            network = unwrap_model(network)
            network.eval()
            multipliers = {each.network_multiplier for each in image_configs}
            if len(multipliers) == 1 and network.can_merge_in:
                merge_multiplier = multipliers.pop()
                network.merge_in(merge_weight=merge_multiplier)
        else:
            network = BlankNetwork()
        self.save_device_state()
        self.set_device_state_preset("generate")
        rng_state = torch.get_rng_state()
        if pipeline is None:
            pipeline = self.get_generation_pipeline()
            pipeline.set_progress_bar_config(disable=True)
        start_multiplier = network.multiplier
        with network, torch.no_grad():
            for number in tqdm(range(len(image_configs)), desc="Generating Samples", leave=True, position=0):
                gen_config = image_configs[number]
                network.multiplier = gen_config.network_multiplier
                generator = torch.manual_seed(gen_config.seed)
                if self.sample_prompts_cache is not None:
                    conditional = self.sample_prompts_cache[number]["conditional"]
                    unconditional = self.sample_prompts_cache[number]["unconditional"]
                else:
                    conditional = self.encode_prompt(gen_config.prompt)
                    unconditional = self.encode_prompt(gen_config.negative_prompt)
                image = self.generate_single_image(
                    pipeline, gen_config, conditional.to(self.device_torch, dtype=self.unet.dtype),
                    unconditional.to(self.device_torch, dtype=self.unet.dtype), generator, {},
                )
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
