import base64
import hashlib
import json
import math
import os
import random
from collections import OrderedDict

import numpy
import torch
from PIL import Image
from PIL.ImageOps import exif_transpose
from safetensors.torch import load_file, save_file
from tqdm import tqdm

from toolkit.accelerator import get_accelerator
from toolkit.buckets import get_bucket_for_image_size
from toolkit.metadata import get_meta_for_safetensors
from toolkit.print import print_acc
from toolkit.prompt_utils import PromptEmbeds


def cache_path(image, folder, facts):
    """The file in a folder beside the image that holds what was computed from it and these facts."""
    digest = hashlib.md5(json.dumps(facts, sort_keys=True).encode("utf-8")).digest()
    name = os.path.splitext(os.path.basename(image))[0]
    code = base64.urlsafe_b64encode(digest).decode("ascii").replace("=", "")
    return os.path.join(os.path.dirname(image), folder, f"{name}_{code}.safetensors")


class Bucket:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self.file_list_idx = []


class BucketsMixin:
    def setup_buckets(self, quiet=False):
        self.buckets = {}
        for index, item in enumerate(self.file_list):
            bucket = get_bucket_for_image_size(item.width, item.height, self.resolution, self.divisibility)
            width, height = bucket["width"], bucket["height"]
            factor = max(width / item.width, height / item.height)
            item.scale_to_width, item.scale_to_height = math.ceil(item.width * factor), math.ceil(item.height * factor)
            item.crop_width, item.crop_height = width, height
            item.crop_x, item.crop_y = (item.scale_to_width - width) // 2, (item.scale_to_height - height) // 2
            self.buckets.setdefault(f"{width}x{height}", Bucket(width, height)).file_list_idx.append(index)
        for bucket in self.buckets.values():
            random.shuffle(bucket.file_list_idx)
        self.build_batch_indices()
        print_acc(f"Bucket sizes for {self.dataset_path}:")
        for key, bucket in self.buckets.items():
            print_acc(f"{key}: {len(bucket.file_list_idx)} files")
        print_acc(f"{len(self.buckets)} buckets made")

    def build_batch_indices(self):
        """Batches of one bucket each; the last of a bucket is filled up with its own members."""
        self.batch_indices = []
        for bucket in self.buckets.values():
            for start in range(0, len(bucket.file_list_idx), self.batch_size):
                members = bucket.file_list_idx[start : start + self.batch_size]
                self.batch_indices.append([members[number % len(members)] for number in range(self.batch_size)])


class ImageProcessingDTOMixin:
    def load_caption(self, caption_dict=None):
        if self.caption is not None:
            return
        path = os.path.splitext(self.path)[0] + (self.dataset_config.caption_ext or ".txt")
        self.caption = self.dataset_config.default_caption or ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.caption = file.read().strip()

    def load_and_process_image(self, transform=None, only_load_latents=False):
        if self.is_text_embedding_cached and not only_load_latents:
            self.prompt_embeds = PromptEmbeds.load(self.get_text_embedding_path())
        if self.is_latent_cached:
            self.get_latent()
            return
        image = exif_transpose(Image.open(self.path)).convert("RGB")
        image = image.resize((self.scale_to_width, self.scale_to_height), Image.BICUBIC)
        box = self.crop_x, self.crop_y, self.crop_x + self.crop_width, self.crop_y + self.crop_height
        pixels = torch.from_numpy(numpy.array(image.crop(box))).permute(2, 0, 1)
        self.tensor = pixels.float() / 127.5 - 1.0

    def get_latent_path(self, recalculate=False):
        sizes = {
            name: getattr(self, name)
            for name in ("scale_to_width", "scale_to_height", "crop_x", "crop_y", "crop_width", "crop_height")
        }
        facts = {"filename": os.path.basename(self.path), **sizes, "latent_space_version": self.latent_space_version}
        return cache_path(self.path, "_latent_cache", facts)

    def get_text_embedding_path(self):
        self.load_caption()
        facts = {"caption": self.caption, "text_embedding_space_version": self.latent_space_version}
        return cache_path(self.path, "_t_e_cache", facts)

    def get_latent(self):
        if self._encoded_latent is None:
            self._encoded_latent = load_file(self.get_latent_path())["latent"]
        return self._encoded_latent

    def cleanup(self):
        self.tensor = self.prompt_embeds = None
        if self.is_caching_to_disk and not self.is_caching_to_memory:
            self._encoded_latent = None


class LatentCachingMixin:
    def cache_latents_all_latents(self):
        with get_accelerator().main_process_first():
            to_disk, to_memory = self.is_caching_latents_to_disk, self.is_caching_latents_to_memory
            print_acc(f"Caching latents for {self.dataset_path}")
            if to_disk:
                print_acc(" - Saving latents to disk")
            if to_memory:
                print_acc(" - Keeping latents in memory")
            moved = False
            for item in tqdm(self.file_list, desc=f"Caching latents{' to disk' if to_disk else ''}"):
                item.is_caching_to_disk, item.is_caching_to_memory = to_disk, to_memory
                path = item.get_latent_path(recalculate=True)
                needs_encode = not os.path.exists(path)
                if needs_encode:
                    try:
                        item.load_and_process_image(only_load_latents=True)
                    except Exception as error:
                        print_acc(f"Error processing image: {item.path}")
                        print_acc(f"Error: {error}")
                        raise error
                    if not moved:
                        self.sd.set_device_state_preset("cache_latents")
                        moved = True
                known = load_file(path) if to_memory and not needs_encode else None
                self._cache_one_latent(item, path, known, needs_encode, to_disk, to_memory)
                item.is_latent_cached = True
            if moved:
                self.sd.restore_device_state()

    def _cache_one_latent(self, item, path, known, needs_encode, to_disk, to_memory):
        if not needs_encode:
            if to_memory:
                item._encoded_latent = known["latent"].to("cpu", dtype=self.sd.torch_dtype)
            return
        try:
            images = item.tensor.unsqueeze(0).to(self.sd.device_torch, dtype=self.sd.torch_dtype)
            with torch.no_grad():
                latent = self.sd.encode_images(images).squeeze(0)
        except Exception as error:
            print_acc(f"Error processing image: {item.path}")
            print_acc(f"Error: {error}")
            raise error
        if to_disk:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            meta = get_meta_for_safetensors(OrderedDict(filename=os.path.basename(item.path)))
            save_file({"latent": latent.detach().cpu().contiguous()}, path, metadata=meta)
        if to_memory:
            item._encoded_latent = latent.to("cpu", dtype=self.sd.torch_dtype)
        item.cleanup()


class TextEmbeddingCachingMixin:
    def cache_text_embeddings(self):
        with get_accelerator().main_process_first():
            print_acc(f"Caching text_embeddings for {self.dataset_path}")
            print_acc(" - Saving text embeddings to disk")
            moved = False
            for item in tqdm(self.file_list, desc="Caching text embeddings to disk"):
                item.load_caption()
                path = item.get_text_embedding_path()
                if not os.path.exists(path):
                    if not moved:
                        self.sd.set_device_state_preset("cache_text_encoder")
                        moved = True
                    with torch.no_grad():
                        self.sd.encode_prompt(item.caption).save(path)
                item.is_text_embedding_cached = True
