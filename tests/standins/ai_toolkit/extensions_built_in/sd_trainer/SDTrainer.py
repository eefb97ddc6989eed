from collections import OrderedDict

import torch

from jobs.process import BaseSDTrainProcess
from toolkit.basic import flush
from toolkit.print import print_acc
from toolkit.prompt_utils import concat_prompt_embeds
from toolkit.train_tools import get_torch_dtype
from toolkit.unloader import unload_text_encoder


class SDTrainer(BaseSDTrainProcess):
    def __init__(self, process_id, job, config, **kwargs):
        super().__init__(process_id, job, config, **kwargs)
        self.unconditional_embeds = self.cached_blank_embeds = self.cached_trigger_embeds = None

    def encode_static_prompt(self, prompt, **kwargs):
        try:
            return self.sd.encode_prompt(prompt, **kwargs)
        except Exception:
            # AI Toolkit tries once more, with a blank control image.
            return self.sd.encode_prompt(prompt, **kwargs)

    def cache_sample_prompts(self):
        self.sd.sample_prompts_cache = [
            {"conditional": self.encode_static_prompt(item.prompt), "unconditional": self.encode_static_prompt(item.neg or "")}
            for item in self.sample_config.samples
        ]

    def before_dataset_load(self):
        super().before_dataset_load()

    def hook_before_train_loop(self):
        super().hook_before_train_loop()
        if self.is_caching_text_embeddings:
            self.sd.unet.to("cpu")
        with torch.no_grad():
            self.unconditional_embeds = self.encode_static_prompt([self.train_config.unconditional_prompt])
            self.unconditional_embeds = self.unconditional_embeds.to(self.device_torch, dtype=self.sd.torch_dtype).detach()
        if self.is_latents_cached:
            self.sd.vae.to("cpu")
            flush()
        else:
            self.sd.vae.eval()
            self.sd.vae.to(self.device_torch)
        if self.train_config.unload_text_encoder or self.is_caching_text_embeddings:
            print_acc("Caching embeddings and unloading text encoder")
            with torch.no_grad():
                self.sd.text_encoder_to(self.device_torch)
                self.cached_blank_embeds = self.encode_static_prompt("")
                if self.trigger_word is not None:
                    self.cached_trigger_embeds = self.encode_static_prompt(self.trigger_word)
                self.cache_sample_prompts()
                print_acc("\n***** UNLOADING TEXT ENCODER *****")
                if self.is_caching_text_embeddings:
                    print_acc("Embeddings cached to disk. We dont need the text encoder anymore")
                else:
                    print_acc("This will train only with a blank prompt or trigger word, if set")
                    print_acc("If this is not what you want, remove the unload_text_encoder flag")
                print_acc("***********************************")
                print_acc("")
                if self.is_caching_text_embeddings:
                    unload_text_encoder(self.sd)
                else:
                    self.sd.text_encoder_to("cpu")
                flush()

    def preprocess_batch(self, batch):
        return batch

    def predict_noise(self, noisy_latents, timesteps, conditional_embeds):
        return self.sd.predict_noise(
            latents=noisy_latents, conditional_embeddings=conditional_embeds, timestep=timesteps
        )

    def calculate_loss(self, noise_pred, noise, batch):
        target = self.sd.get_loss_target(noise=noise, batch=batch)
        return torch.nn.functional.mse_loss(noise_pred.float(), target.float())

    def train_single_accumulation(self, batch):
        dtype = get_torch_dtype(self.train_config.dtype)
        with torch.no_grad():
            batch = self.preprocess_batch(batch)
            noisy_latents, noise, timesteps, prompts = self.process_general_training_batch(batch)
            count = noisy_latents.shape[0]
        with self.network:
            if batch.prompt_embeds is not None:
                conditional_embeds = batch.prompt_embeds
            elif self.train_config.unload_text_encoder:
                known = self.cached_trigger_embeds or self.cached_blank_embeds
                conditional_embeds = concat_prompt_embeds([known.clone()] * count)
            else:
                with torch.set_grad_enabled(False):
                    conditional_embeds = self.sd.encode_prompt(prompts)
            noise_pred = self.predict_noise(
                noisy_latents.to(self.device_torch, dtype=dtype), timesteps,
                conditional_embeds.to(self.device_torch, dtype=dtype).detach(),
            )
            loss = self.calculate_loss(noise_pred, noise, batch)
            if not torch.isfinite(loss):
                print_acc("loss is nan")
                loss = torch.zeros_like(loss).requires_grad_(True)
            self.accelerator.backward(loss)
        return loss.detach()

    def hook_train_loop(self, batch):
        batches = batch if isinstance(batch, list) else [batch]
        total = None
        self.optimizer.zero_grad()
        for each in batches:
            loss = self.train_single_accumulation(each)
            total = loss if total is None else total + loss
        if not self.is_grad_accumulation_step:
            for group in self.params:
                self.accelerator.clip_grad_norm_(group["params"], self.train_config.max_grad_norm)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        self.lr_scheduler.step()
        return OrderedDict(loss=(total / len(batches)).item())
