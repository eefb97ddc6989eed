import copy
import glob
import os
from collections import OrderedDict

import torch

from jobs.process.BaseTrainProcess import BaseTrainProcess
from toolkit.accelerator import get_accelerator, unwrap_model
from toolkit.basic import flush
from toolkit.config_modules import (
    DatasetConfig,
    GenerateImageConfig,
    LoggingConfig,
    ModelConfig,
    NetworkConfig,
    SampleConfig,
    SaveConfig,
    TrainConfig,
    preprocess_dataset_raw_config,
)
from toolkit.data_loader import get_dataloader_from_datasets, trigger_dataloader_setup_epoch
from toolkit.data_transfer_object.data_loader import DataLoaderBatchDTO
from toolkit.lora_special import LoRASpecialNetwork
from toolkit.metadata import get_meta_for_safetensors, load_metadata_from_safetensors
from toolkit.optimizer import get_optimizer
from toolkit.print import print_acc
from toolkit.progress_bar import ToolkitProgressBar
from toolkit.sampler import get_sampler
from toolkit.sd_device_states_presets import get_train_sd_device_state_preset
from toolkit.train_tools import get_torch_dtype
from toolkit.util.get_model import get_model_class

# Sections of a job that would change what a run is, and that the stand-in does not carry out.
ABSENT = ("embedding", "adapter", "decorator", "slider", "guidance", "first_sample")


class BaseSDTrainProcess(BaseTrainProcess):
    def __init__(self, process_id, job, config, custom_pipeline=None):
        super().__init__(process_id, job, config)
        for name in ABSENT:
            if self.get_conf(name) is not None:
                raise ValueError(f"the stand-in has no {name}")
        self.accelerator = get_accelerator()
        self.step_num = self.start_step = self.epoch_num = self.last_save_step = 0
        self.grad_accumulation_step = 1
        self.is_grad_accumulation_step = False
        self.device, self.device_torch = str(self.accelerator.device), self.accelerator.device
        network = self.get_conf("network")
        if network is None:
            raise ValueError("the stand-in trains LoRAs alone: the job has no network")
        self.network_config = NetworkConfig(**network)
        self.train_config = TrainConfig(**self.get_conf("train", {}))
        if self.get_conf("train.ema_config.use_ema"):
            raise ValueError("the stand-in has no EMA")
        self.model_config = ModelConfig(**{**self.get_conf("model", {}), "dtype": self.train_config.dtype})
        self.save_config = SaveConfig(**self.get_conf("save", {}))
        self.sample_config = SampleConfig(**self.get_conf("sample", {}))
        self.logging_config = LoggingConfig(**self.get_conf("logging", {}))
        self.trigger_word = self.get_conf("trigger_word")
        self.has_first_sample_requested = False
        raw = preprocess_dataset_raw_config(self.get_conf("datasets", []))
        if self.train_config.cache_text_embeddings:
            raw = [{**each, "cache_text_embeddings": True} for each in raw]
        self.dataset_configs = [DatasetConfig(**each) for each in raw]
        self.datasets = [each for each in self.dataset_configs if not each.is_reg] or None
        self.datasets_reg = [each for each in self.dataset_configs if each.is_reg] or None
        self.is_latents_cached = all(each.cache_latents or each.cache_latents_to_disk for each in self.dataset_configs)
        self.is_caching_text_embeddings = any(each.cache_text_embeddings for each in self.dataset_configs)
        self.train_device_state_preset = get_train_sd_device_state_preset(
            self.device_torch, self.train_config.train_unet, cached_latents=self.is_latents_cached,
            unload_text_encoder=self.train_config.unload_text_encoder or self.is_caching_text_embeddings,
        )
        self.sd = self.network = self.adapter = self.embedding = self.ema = None
        self.optimizer = self.lr_scheduler = self.data_loader = self.data_loader_reg = None
        self.params = []
        self.is_fine_tuning = False
        self.num_consecutive_oom = 0
        self.additional_logs = {}
        self.modules_being_trained = []

    # What subclasses fill in.
    def post_process_generate_image_config_list(self, configs):
        return configs

    def post_save_hook(self, save_path):
        pass

    def done_hook(self):
        pass

    def end_step_hook(self):
        pass

    def hook_before_model_load(self):
        pass

    def hook_after_sd_init_before_load(self):
        pass

    def hook_after_model_load(self):
        pass

    def hook_add_extra_train_params(self, params):
        return params

    def before_dataset_load(self):
        pass

    def sample_step_hook(self, img_num, total_imgs):
        pass

    def hook_train_loop(self, batch):
        return 0.0

    def setup_validation(self):
        if self.train_config.validation_config is not None:
            raise ValueError("the stand-in has no validation")

    def validate(self):
        pass

    def hook_before_train_loop(self):
        self.prepare_accelerator()

    def prepare_accelerator(self):
        self.accelerator.even_batches = False
        self.sd.vae = self.accelerator.prepare(self.sd.vae)
        self.sd.unet = self.accelerator.prepare(self.sd.unet)
        self.sd.network = self.accelerator.prepare(self.sd.network)
        self.modules_being_trained += [self.sd.unet, self.sd.network]
        self.optimizer = self.accelerator.prepare(self.optimizer)

    def ensure_params_requires_grad(self, force=False):
        for group in self.params:
            for weight in group["params"]:
                weight.requires_grad_(True)

    def sample(self, step=None, is_first=False):
        if not self.accelerator.is_main_process:
            return
        flush()
        folder = os.path.join(self.save_root, "samples")
        config, seed, configs = self.sample_config, self.sample_config.seed, []
        for number, item in enumerate(config.samples):
            if config.walk_seed:
                seed = config.seed + number
            if item.seed is not None:
                seed = item.seed
            at = "" if step is None else f"_{str(step).zfill(9)}"
            configs.append(GenerateImageConfig(
                prompt=self.sd.inject_trigger_into_prompt(item.prompt, self.trigger_word),
                width=item.width,
                height=item.height,
                negative_prompt=item.neg,
                seed=seed,
                guidance_scale=item.guidance_scale,
                num_inference_steps=item.sample_steps,
                network_multiplier=item.network_multiplier,
                output_path=os.path.join(folder, f"[time]_{at}_[count].{config.ext}"),
                num_frames=item.num_frames,
                fps=item.fps,
            ))
        configs = self.post_process_generate_image_config_list(configs)
        self.sd.generate_images(configs, sampler=config.sampler)
        print_acc("")

    def get_training_info(self):
        return OrderedDict(step=self.step_num, epoch=self.epoch_num)

    def update_training_metadata(self):
        self.add_meta(OrderedDict(
            training_info=self.get_training_info(),
            ss_base_model_version=self.sd.get_base_model_version(),
            ss_output_name=self.job.name,
        ))

    def clean_up_saves(self):
        saves = glob.glob(os.path.join(self.save_root, f"{self.job.name}_*.safetensors"))
        saves.sort(key=os.path.getctime)
        for path in saves[: -self.save_config.max_step_saves_to_keep]:
            print_acc(f"Removing old save: {path}")
            os.remove(path)

    def save(self, step=None):
        if not self.accelerator.is_main_process:
            return
        flush()
        os.makedirs(self.save_root, exist_ok=True)
        at = ""
        if step is not None:
            self.last_save_step = step
            at = f"_{str(step).zfill(9)}"
        self.update_training_metadata()
        path = os.path.join(self.save_root, f"{self.job.name}{at}.safetensors")
        meta = get_meta_for_safetensors(copy.deepcopy(self.meta), self.job.name)
        before, self.network.multiplier = self.network.multiplier, 1.0
        self.network.save_weights(path, dtype=get_torch_dtype(self.save_config.dtype), metadata=meta)
        self.network.multiplier = before
        print_acc(f"Saved checkpoint to {path}")
        try:
            state = os.path.join(self.save_root, "optimizer.pt")
            torch.save(unwrap_model(self.optimizer).state_dict(), state)
            print_acc(f"Saved optimizer to {state}")
        except Exception as error:
            print_acc(error)
            print_acc("Could not save optimizer")
        self.clean_up_saves()
        self.post_save_hook(path)
        flush()

    def get_latest_save_path(self, name=None, post=""):
        """The newest file or folder of the job, by the time it was last changed; else the LoRA the job begins with."""
        name = name or self.job.name
        patterns = (f"{name}*{post}.safetensors", f"{name}*{post}.pt", f"{name}*{post}")
        paths = [path for pattern in patterns for path in glob.glob(os.path.join(self.save_root, pattern))]
        paths = [path for path in paths if "_LoRA" not in path and "_refiner" not in path]
        if paths:
            return max(paths, key=os.path.getctime)
        given = self.network_config.pretrained_lora_path
        if given is not None and os.path.exists(given):
            print_acc(f"Using pretrained lora path from config: {given}")
            return given
        if given is not None:
            print_acc(f"Pretrained lora path from config does not exist: {given}")
        return None

    def load_training_state_from_metadata(self, path):
        if path == self.network_config.pretrained_lora_path:
            return
        info = load_metadata_from_safetensors(path).get("training_info", {})
        if "step" in info and self.train_config.start_step is None:
            self.step_num = self.start_step = info["step"]
            self.epoch_num = info.get("epoch", self.epoch_num)
            print_acc(f"Found step {self.step_num} in metadata, starting from there")

    def load_weights(self, path):
        extra = self.network.load_weights(path)
        self.load_training_state_from_metadata(path)
        return extra

    def process_general_training_batch(self, batch):
        dtype = get_torch_dtype(self.train_config.dtype)
        with torch.no_grad():
            prompts = [
                self.sd.inject_trigger_into_prompt(prompt, self.trigger_word, add_if_not_present=True)
                for prompt in batch.get_caption_list()
            ]
            if batch.latents is None:
                images = batch.tensor.to(self.device_torch, dtype=dtype)
                batch.latents = self.sd.encode_images(images)
            latents = batch.latents.to(self.device_torch, dtype=dtype)
            timesteps = self.sd.noise_scheduler.draw(latents.shape[0]).to(self.device_torch)
            noise = torch.randn(latents.shape, dtype=torch.float32).to(self.device_torch, dtype=dtype)
            return self.sd.add_noise(latents, noise, timesteps), noise, timesteps, prompts

    def load_network(self):
        """Make the LoRA, its weights from the newest save where there is one; the groups of what is trained."""
        text_encoder, unet, targets = self.sd.text_encoder, self.sd.unet, {}
        if hasattr(self.sd, "target_lora_modules"):
            targets["target_lin_modules"] = self.sd.target_lora_modules
        self.network = LoRASpecialNetwork(
            text_encoder=text_encoder,
            unet=self.sd.get_model_to_train(),
            lora_dim=self.network_config.linear,
            alpha=self.network_config.linear_alpha,
            train_unet=self.train_config.train_unet,
            network_config=self.network_config,
            network_type=self.network_config.type,
            transformer_only=self.network_config.transformer_only,
            is_transformer=self.sd.is_transformer,
            base_model=self.sd,
            **targets,
        )
        self.network.force_to(self.device_torch, dtype=torch.float32)
        self.sd.network = self.network
        self.network.apply_to(text_encoder, unet, False, self.train_config.train_unet)
        if self.model_config.quantize:
            self.network.can_merge_in = False
        self.network.prepare_grad_etc(text_encoder, unet)
        flush()
        lr = float(self.train_config.lr)
        params = self.network.prepare_optimizer_params(text_encoder_lr=lr, unet_lr=lr, default_lr=lr)
        latest = self.get_latest_save_path()
        if latest is not None:
            print_acc(f"#### IMPORTANT RESUMING FROM {latest} ####")
            print_acc(f"Loading from {latest}")
            self.load_weights(latest)
            self.network.multiplier = 1.0
        return params

    def load_optimizer(self, optimizer):
        path = os.path.join(self.save_root, "optimizer.pt")
        if not os.path.exists(path):
            return
        rates = [group["lr"] for group in optimizer.param_groups]
        try:
            print_acc(f"Loading optimizer state from {path}")
            optimizer.load_state_dict(torch.load(path, weights_only=True))
            flush()
        except Exception as error:
            print_acc(f"Failed to load optimizer state from {path}")
            print_acc(error)
        print_acc("Updating optimizer LR from params")
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = group["initial_lr"] = rate

    def run(self):
        super().run()
        self.hook_before_model_load()
        ModelClass = get_model_class(self.model_config)
        if hasattr(ModelClass, "get_train_scheduler"):
            sampler = ModelClass.get_train_scheduler()
        else:
            sampler = get_sampler(self.train_config.noise_scheduler)
        self.sd = ModelClass(
            device=self.accelerator.device,
            model_config=copy.deepcopy(self.model_config),
            dtype=self.train_config.dtype,
            noise_scheduler=sampler,
        )
        self.hook_after_sd_init_before_load()
        self.sd.load_model()
        self.sd.add_after_sample_image_hook(self.sample_step_hook)
        dtype = get_torch_dtype(self.train_config.dtype)
        unet, vae = self.sd.unet, self.sd.vae
        if self.train_config.gradient_checkpointing:
            unet.enable_gradient_checkpointing()
            for encoder in self.sd.each_encoder():
                encoder.enable_gradient_checkpointing()
        unet.to(self.device_torch, dtype=dtype)
        unet.requires_grad_(False)
        unet.eval()
        vae = vae.to(torch.device("cpu"), dtype=dtype)
        vae.requires_grad_(False)
        vae.eval()
        self.hook_after_model_load()
        flush()
        self.params = self.hook_add_extra_train_params(self.load_network())
        if self.train_config.start_step is not None:
            self.step_num = self.start_step = self.train_config.start_step
        self.ensure_params_requires_grad(force=True)
        optimizer = get_optimizer(
            self.params, self.train_config.optimizer.lower(), learning_rate=self.train_config.lr,
            optimizer_params=self.train_config.optimizer_params,
        )
        self.optimizer = optimizer
        self.load_optimizer(optimizer)
        self.lr_scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0, total_iters=self.train_config.steps)
        self.setup_validation()
        self.before_dataset_load()
        if self.datasets is not None:
            self.data_loader = get_dataloader_from_datasets(self.datasets, self.train_config.batch_size, self.sd)
        if self.datasets_reg is not None:
            self.data_loader_reg = get_dataloader_from_datasets(self.datasets_reg, self.train_config.batch_size, self.sd)
        flush()
        self.last_save_step = self.step_num
        self.hook_before_train_loop()
        if self.train_config.skip_first_sample or self.train_config.disable_sampling:
            print_acc("Skipping first sample due to config setting")
        elif self.step_num <= 1 or self.train_config.force_first_sample:
            print_acc("Generating baseline samples before training")
            self.sample(self.step_num)
        self.progress_bar = ToolkitProgressBar(
            total=self.train_config.steps, desc=self.job.name, leave=True, initial=self.step_num,
            iterable=range(0, self.train_config.steps),
        )
        self.progress_bar.pause()
        batches = iter(self.data_loader)
        regular = iter(self.data_loader_reg) if self.data_loader_reg is not None else None
        optimizer.zero_grad()
        self.sd.set_device_state(self.train_device_state_preset)
        flush()
        self.ensure_params_requires_grad(force=True)

        def following(loader, iterator):
            try:
                return next(iterator), iterator, False
            except StopIteration:
                iterator = iter(loader)
                trigger_dataloader_setup_epoch(loader)
                return next(iterator), iterator, True

        did_first_flush = flush_next = False
        for step in range(self.step_num, self.train_config.steps):
            if flush_next:
                flush()
                flush_next = False
            self.step_num = step
            self.is_grad_accumulation_step = True
            self.progress_bar.unpause()
            with torch.no_grad():
                every, config = self.save_config.save_every, self.sample_config
                is_save_step = every and step % every == 0
                is_sample_step = (
                    config.sample_every and step >= config.sample_start_step and step % config.sample_every == 0
                    and not self.train_config.disable_sampling
                )
                batch_list = []
                for _ in range(self.train_config.gradient_accumulation):
                    if regular is not None and step % 2 == 0 and not is_save_step and not is_sample_step:
                        batch, regular, _ = following(self.data_loader_reg, regular)
                    else:
                        batch, batches, ended = following(self.data_loader, batches)
                        self.epoch_num += ended
                    batch_list.append(batch)
                is_optimizer_step = self.grad_accumulation_step >= self.train_config.gradient_accumulation_steps
                self.is_grad_accumulation_step = not is_optimizer_step
                if is_optimizer_step:
                    self.grad_accumulation_step = 0
            did_oom, loss_dict = False, None
            try:
                with self.accelerator.accumulate(self.modules_being_trained):
                    loss_dict = self.hook_train_loop(batch_list)
            except torch.cuda.OutOfMemoryError:
                did_oom = True
            except RuntimeError as error:
                if "CUDA out of memory" not in str(error):
                    raise
                did_oom = True
            if did_oom:
                self.num_consecutive_oom += 1
                if self.num_consecutive_oom > 3:
                    raise RuntimeError("OOM during training step 3 times in a row, aborting training")
                optimizer.zero_grad(set_to_none=True)
                flush()
                torch.cuda.ipc_collect()
                print_acc("")
                print_acc("################################################")
                print_acc(f"# OOM during training step, skipping batch {self.num_consecutive_oom}/3 #")
                print_acc("################################################")
                print_acc("")
            else:
                self.num_consecutive_oom = 0
            if not did_first_flush:
                flush()
                did_first_flush = True
            with torch.no_grad():
                if loss_dict is not None:
                    words = f"lr: {optimizer.param_groups[0]['lr']:.1e}"
                    for key, value in loss_dict.items():
                        words += f" {key}: {value:.3e}"
                    self.progress_bar.set_postfix_str(words)
                if isinstance(batch, DataLoaderBatchDTO):
                    batch.cleanup()
                if step != self.start_step:
                    if is_save_step:
                        self.progress_bar.pause()
                        print_acc(f"\nSaving at step {step}")
                        self.save(step)
                        self.ensure_params_requires_grad()
                        optimizer.zero_grad()
                        flush()
                        flush_next = True
                        self.progress_bar.unpause()
                    if is_sample_step:
                        self.progress_bar.pause()
                        flush()
                        self.sample(step)
                        if self.train_config.unload_text_encoder:
                            self.sd.text_encoder_to("cpu")
                        flush()
                        self.ensure_params_requires_grad()
                        self.progress_bar.unpause()
                self.progress_bar.update(step + 1 - self.progress_bar.n)
                self.step_num = step + 1
                self.grad_accumulation_step += 1
                self.end_step_hook()

        self.accelerator.wait_for_everyone()
        self.progress_bar.close()
        self.save()
        if not self.train_config.disable_sampling:
            self.sample(self.step_num)
        print_acc("")
        self.accelerator.end_training()
        del self.sd, self.network, unet, vae, optimizer
        flush()
        self.done_hook()
