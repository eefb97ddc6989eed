import copy
import json
import os
import random
import traceback

from torch.utils.data import ConcatDataset, DataLoader, Dataset
from tqdm import tqdm

from toolkit.data_transfer_object.data_loader import DataLoaderBatchDTO, FileItemDTO
from toolkit.dataloader_mixins import BucketsMixin, LatentCachingMixin, TextEmbeddingCachingMixin
from toolkit.print import print_acc

image_extensions = (".jpg", ".jpeg", ".png", ".webp")


class AiToolkitDataset(LatentCachingMixin, TextEmbeddingCachingMixin, BucketsMixin, Dataset):
    def __init__(self, dataset_config, batch_size=1, sd=None):
        self.dataset_config, self.batch_size, self.sd = dataset_config, batch_size, sd
        self.divisibility, self.resolution = sd.get_bucket_divisibility(), dataset_config.resolution
        self.dataset_path = dataset_config.dataset_path or dataset_config.folder_path
        self.is_caching_latents = dataset_config.cache_latents or dataset_config.cache_latents_to_disk
        self.is_caching_latents_to_memory = dataset_config.cache_latents
        self.is_caching_latents_to_disk = dataset_config.cache_latents_to_disk
        self.is_caching_text_embeddings = dataset_config.cache_text_embeddings
        self.epoch_num, self.file_list = 0, []
        if os.path.isdir(self.dataset_path):
            files = []
            for root, folders, names in os.walk(self.dataset_path):
                folders[:] = [name for name in folders if not name.startswith(".")]
                files += [os.path.join(root, name) for name in names if name.lower().endswith(image_extensions)]
        else:
            with open(self.dataset_path) as file:
                files = list(json.load(file))
        files = files * max(1, dataset_config.num_repeats)
        print_acc(f"Dataset: {self.dataset_path}")
        print_acc("  -  Preprocessing image dimensions")
        folder = self.dataset_path if os.path.isdir(self.dataset_path) else os.path.dirname(self.dataset_path)
        sizes_file, sizes = os.path.join(folder, ".aitk_size.json"), {}
        if os.path.exists(sizes_file):
            try:
                with open(sizes_file) as file:
                    sizes = json.load(file)
            except Exception as error:
                print_acc(f"Error loading size database: {sizes_file}")
                print_acc(error)
        sizes["__version__"] = "0.1.2"
        for path in tqdm(files):
            try:
                self.file_list.append(FileItemDTO(path, dataset_config, sizes, folder, sd.model_config.arch))
            except Exception as error:
                print_acc(traceback.format_exc())
                print_acc(f"Error processing image: {path}")
                print_acc(error)
        with open(sizes_file, "w") as file:
            json.dump(sizes, file)
        print_acc(f"  -  Found {len(self.file_list)} images")
        assert len(self.file_list) > 0, f"no images found in {self.dataset_path}"
        self.setup_epoch()

    def setup_epoch(self):
        if self.epoch_num == 0:
            if self.dataset_config.buckets:
                self.setup_buckets()
            if self.is_caching_latents:
                self.cache_latents_all_latents()
            if self.is_caching_text_embeddings:
                self.cache_text_embeddings()
        self.epoch_num += 1

    def __getstate__(self):
        return {**self.__dict__, "sd": None}

    def __len__(self):
        return len(self.batch_indices) if self.dataset_config.buckets else len(self.file_list)

    def _get_single_item(self, index, _attempts=0):
        item = copy.deepcopy(self.file_list[index])
        try:
            item.load_and_process_image()
        except Exception as error:
            print(f"Error loading image, skipping and loading a different one: {item.path} ({error})")
            if _attempts >= 10:
                raise
            mates = next((b.file_list_idx for b in self.buckets.values() if index in b.file_list_idx), [index])
            others = [other for other in mates if other != index] or range(len(self.file_list))
            return self._get_single_item(random.choice(others), _attempts + 1)
        item.load_caption()
        return item

    def __getitem__(self, number):
        if self.dataset_config.buckets:
            return [self._get_single_item(index) for index in self.batch_indices[number]]
        return self._get_single_item(number)


def dto_collation(batch):
    return DataLoaderBatchDTO(file_items=batch)


def get_dataloader_from_datasets(dataset_options, batch_size=1, sd=None):
    if not dataset_options:
        return None
    datasets = []
    for config in dataset_options:
        if config.type != "image":
            raise ValueError(f"invalid dataset type: {config.type}")
        size = config.batch_size if config.batch_size is not None else batch_size
        datasets.append(AiToolkitDataset(config, batch_size=size, sd=sd))
    workers = dataset_options[0].num_workers
    more = {"prefetch_factor": dataset_options[0].prefetch_factor, "persistent_workers": True} if workers else {}
    buckets = any(config.buckets for config in dataset_options)
    return DataLoader(
        ConcatDataset(datasets), batch_size=None if buckets else batch_size, shuffle=True, num_workers=workers,
        collate_fn=dto_collation, **more,
    )


def trigger_dataloader_setup_epoch(dataloader):
    for dataset in dataloader.dataset.datasets:
        dataset.setup_epoch()
