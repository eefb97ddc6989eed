"""What of AI Toolkit's settings the stand-in knows, with its defaults; others are read over, as there."""

import os
import random
import time


class Settings:
    defaults: dict = {}

    def __init__(self, **given):
        for name, value in self.defaults.items():
            setattr(self, name, given.get(name, value))


class SaveConfig(Settings):
    defaults = {"save_every": 1000, "dtype": "float16", "max_step_saves_to_keep": 5, "push_to_hub": False}


class LoggingConfig(Settings):
    defaults = {"log_every": 100}


class NetworkConfig(Settings):
    defaults = {"type": "lora", "linear": 4, "transformer_only": True, "pretrained_lora_path": None}

    def __init__(self, **given):
        super().__init__(**given)
        self.linear = given.get("rank", given.get("lora_dim", self.linear))
        self.linear_alpha = given.get("linear_alpha", given.get("alpha", self.linear))
        if self.type.lower() != "lora":
            raise ValueError(f"the stand-in has no network of type {self.type}")


class TrainConfig(Settings):
    defaults = {
        "noise_scheduler": "ddpm", "steps": 1000, "lr": 1e-6, "optimizer": "adamw", "optimizer_params": None,
        "lr_scheduler": "constant", "max_grad_norm": 1.0, "batch_size": 1, "gradient_checkpointing": True,
        "gradient_accumulation": 1, "gradient_accumulation_steps": 1, "train_unet": True, "train_text_encoder": False,
        "dtype": "fp32", "skip_first_sample": False, "force_first_sample": False, "disable_sampling": False,
        "unload_text_encoder": False, "cache_text_embeddings": False, "start_step": None,
        "unconditional_prompt": "", "validation_config": None,
    }

    def __init__(self, **given):
        super().__init__(**given)
        self.optimizer_params = self.optimizer_params or {}
        if self.train_text_encoder:
            raise ValueError("the stand-in trains no text encoder")


class ModelConfig(Settings):
    defaults = {
        "name_or_path": None, "arch": None, "dtype": "float16", "low_vram": False, "quantize": False,
        "layer_offloading": False, "assistant_lora_path": None,
    }

    def __init__(self, **given):
        super().__init__(**given)
        for name, arch in (("is_xl", "sdxl"), ("is_flux", "flux"), ("is_lumina2", "lumina2")):
            if given.get(name):
                self.arch = arch
        self.arch = (self.arch or "sd1").split(":")[0]
        if self.arch == "sd15":
            self.arch = "sd1"
        if self.arch not in ("sd1", "zimage"):
            raise ValueError(f"the stand-in has no architecture {self.arch}")
        if self.layer_offloading or self.assistant_lora_path:
            raise ValueError("the stand-in has no layer offloading and no assistant LoRA")


class DatasetConfig(Settings):
    defaults = {
        "type": "image", "folder_path": None, "dataset_path": None, "caption_ext": ".txt", "default_caption": "",
        "resolution": 512, "buckets": True, "cache_latents": False, "cache_latents_to_disk": False,
        "cache_text_embeddings": False, "num_workers": 2, "num_repeats": 1, "is_reg": False, "batch_size": None,
        "trigger_word": None, "caption_dropout_rate": 0.0, "num_frames": 1, "prefetch_factor": 2,
    }

    def __init__(self, **given):
        super().__init__(**given)
        if self.caption_ext and not self.caption_ext.startswith("."):
            self.caption_ext = "." + self.caption_ext


def preprocess_dataset_raw_config(raw):
    """A list of resolutions becomes one dataset each."""
    found = []
    for each in raw:
        resolutions = each.get("resolution", 512)
        resolutions = resolutions if isinstance(resolutions, list) else [resolutions]
        found += [{**each, "resolution": resolution} for resolution in resolutions]
    return found


class SampleItem:
    def __init__(self, config, **given):
        self.prompt = given.get("prompt")
        self.seed = given.get("seed")
        for name in ("width", "height", "neg", "guidance_scale", "sample_steps", "num_frames", "fps", "network_multiplier"):
            setattr(self, name, given.get(name, getattr(config, name)))


class SampleConfig(Settings):
    defaults = {
        "sampler": "ddpm", "sample_every": 100, "sample_start_step": 0, "width": 512, "height": 512, "neg": "",
        "seed": 0, "walk_seed": False, "guidance_scale": 7, "sample_steps": 20, "network_multiplier": 1.0,
        "num_frames": 1, "fps": 16,
    }

    def __init__(self, **given):
        super().__init__(**given)
        self.ext = given.get("format", "jpg")
        raw = given.get("samples", [{"prompt": prompt} for prompt in given.get("prompts", [])])
        self.samples = [SampleItem(self, **each) for each in raw]

    @property
    def prompts(self):
        return [each.prompt for each in self.samples if each.prompt is not None]


class GenerateImageConfig:
    """One preview: what to make, and where to write it."""

    def __init__(
        self, prompt="", width=512, height=512, num_inference_steps=50, guidance_scale=7.5, negative_prompt="",
        seed=-1, network_multiplier=1.0, output_path=None, num_frames=1, fps=15, logger=None,
    ):
        self.prompt, self.negative_prompt = prompt, negative_prompt or ""
        self.num_inference_steps, self.guidance_scale = num_inference_steps, guidance_scale
        self.seed = random.randint(0, 2**32 - 1) if seed == -1 else seed
        self.network_multiplier = network_multiplier
        self.num_frames, self.fps = num_frames, fps
        self.latents = None
        self.logger = logger
        self.output_path = output_path
        self.output_folder = os.path.dirname(output_path)
        self.output_filename_no_ext, ending = os.path.splitext(os.path.basename(output_path))
        self.output_ext = ending[1:]
        self.set_gen_time()
        self.width, self.height = (max(64, side - side % 8) for side in (width, height))

    def set_gen_time(self):
        self.gen_time = int(time.time() * 1000)

    def get_image_path(self, count=0, max_count=0):
        number = str(count).zfill(len(str(max_count)))
        name = self.output_filename_no_ext.replace("[time]", str(self.gen_time)).replace("[count]", number)
        return os.path.join(self.output_folder, f"{name}.{self.output_ext}")

    def save_image(self, image, count=0, max_count=0):
        os.makedirs(self.output_folder, exist_ok=True)
        self.set_gen_time()
        image.save(self.get_image_path(count, max_count))

    def save_image_atomic(self, image, count=0, max_count=0):
        folder = self.output_folder
        self.output_folder = beside = os.path.join(folder, ".tmp")
        os.makedirs(beside, exist_ok=True)
        try:
            self.save_image(image, count, max_count)
        finally:
            self.output_folder = folder
        thumbs = os.path.join(folder, ".thumbs")
        os.makedirs(thumbs, exist_ok=True)
        for name in os.listdir(beside):
            image.convert("RGB").resize((300, 300)).save(os.path.join(thumbs, name + ".jpg"), quality=90)
            os.replace(os.path.join(beside, name), os.path.join(folder, name))

    def log_image(self, image, count=0, max_count=0):
        pass
