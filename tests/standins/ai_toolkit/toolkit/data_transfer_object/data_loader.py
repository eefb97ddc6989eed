import torch
from PIL import Image
from PIL.ImageOps import exif_transpose

from toolkit.basic import get_quick_signature_string
from toolkit.dataloader_mixins import ImageProcessingDTOMixin
from toolkit.prompt_utils import concat_prompt_embeds


class FileItemDTO(ImageProcessingDTOMixin):
    """One picture of a dataset, its caption, and what was computed of the two."""

    def __init__(self, path, dataset_config, size_database, dataset_root, latent_space_version):
        self.path, self.dataset_config = path, dataset_config
        self.latent_space_version = latent_space_version
        key, signature = path.replace(dataset_root, ""), get_quick_signature_string(path)
        known = size_database.get(key)
        if known is None or known[2] != signature:
            known = size_database[key] = (*exif_transpose(Image.open(path)).size, signature)
        self.width, self.height = known[:2]
        self.num_frames = 1
        self.crop_x = self.crop_y = 0
        self.scale_to_width, self.scale_to_height = self.crop_width, self.crop_height = self.width, self.height
        self.is_reg = dataset_config.is_reg
        self.caption = self.tensor = self.prompt_embeds = self._encoded_latent = None
        self.is_latent_cached = self.is_text_embedding_cached = False
        self.is_caching_to_disk = self.is_caching_to_memory = False


class DataLoaderBatchDTO:
    def __init__(self, file_items):
        self.file_items = file_items
        self.tensor = self.latents = self.prompt_embeds = None
        self.num_frames = file_items[0].num_frames
        if file_items[0].is_latent_cached:
            self.latents = torch.cat([item.get_latent().unsqueeze(0) for item in file_items])
        else:
            self.tensor = torch.cat([item.tensor.unsqueeze(0) for item in file_items])
        if file_items[0].prompt_embeds is not None:
            self.prompt_embeds = concat_prompt_embeds([item.prompt_embeds for item in file_items])

    def get_caption_list(self):
        return [item.caption for item in self.file_items]

    def cleanup(self):
        self.tensor = self.latents = self.prompt_embeds = None
        for item in self.file_items:
            item.cleanup()
