import os
import random

import torch
import yaml

from jobs.process.BaseProcess import BaseProcess


class BaseTrainProcess(BaseProcess):
    def __init__(self, process_id, job, config):
        super().__init__(process_id, job, config)
        self.progress_bar = None
        self.writer = None
        self.training_seed = self.get_conf("training_seed", getattr(job, "training_seed", None))
        if self.training_seed is not None:
            torch.manual_seed(self.training_seed)
            random.seed(self.training_seed)
        self.training_folder = self.get_conf("training_folder", getattr(job, "training_folder", None))
        self.save_root = os.path.join(self.training_folder, self.name)
        self.save_training_config()

    def save_training_config(self):
        os.makedirs(self.save_root, exist_ok=True)
        with open(os.path.join(self.save_root, "config.yaml"), "w") as file:
            # The order of the keys is that of the job, as with oyaml.
            yaml.safe_dump(self.job.raw_config, file, sort_keys=False)
