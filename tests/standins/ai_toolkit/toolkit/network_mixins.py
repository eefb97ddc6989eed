import weakref
from collections import OrderedDict

import torch
from safetensors.torch import load_file, save_file

from toolkit.metadata import add_model_hash_to_meta


class ToolkitModuleMixin:
    def __init__(self, network):
        self.network_ref = weakref.ref(network)

    def _call_forward(self, x):
        return self.lora_up(self.lora_down(x)) * self.scale

    def forward(self, x, *args, **kwargs):
        network = self.network_ref()
        if not network.is_active or network.is_merged_in or network._multiplier == 0:
            return self.org_forward(x, *args, **kwargs)
        given = self.org_forward(x, *args, **kwargs)
        added = self._call_forward(x.to(self.lora_down.weight.dtype)) * network._multiplier
        try:
            return given + added.to(given.dtype)
        except RuntimeError as error:
            print(error)
            print(given.size())
            print(added.size())
            raise error

    @torch.no_grad()
    def merge_out(self, merge_out_weight=1.0):
        self.merge_in(-abs(merge_out_weight))

    @torch.no_grad()
    def merge_in(self, merge_weight=1.0):
        up, down = self.lora_up.weight.float(), self.lora_down.weight.float()
        if not up.any() or not down.any():
            return
        weight = self.org_module[0].weight
        change = (up.flatten(1) @ down.flatten(1)).view(weight.shape) * self.scale * merge_weight
        weight.data = (weight.data.float() + change).to(weight.dtype)


class ToolkitNetworkMixin:
    def get_state_dict(self, dtype=torch.float16):
        saved = OrderedDict()
        for name, weight in self.state_dict().items():
            if self.peft_format:
                if name.endswith(".alpha"):
                    continue
                name = name.replace("lora_down", "lora_A").replace("lora_up", "lora_B").replace("$$", ".")
            saved[name] = weight.detach().clone().to("cpu", dtype)
        return self.base_model_ref().convert_lora_weights_before_save(saved)

    def save_weights(self, file, dtype=torch.float16, metadata=None):
        saved = self.get_state_dict(dtype)
        save_file(saved, file, add_model_hash_to_meta(saved, metadata or OrderedDict()))

    def load_weights(self, file):
        loaded = self.base_model_ref().convert_lora_weights_before_load(load_file(file))
        if self.peft_format:
            modules = {}
            for name, weight in loaded.items():
                name, _, tail = name.replace(".lora_A", ".lora_down").replace(".lora_B", ".lora_up").rpartition(".lora_")
                modules[name.replace(".", "$$") + ".lora_" + tail] = weight
            loaded = modules
        own = self.state_dict()
        extra = {name: weight for name, weight in loaded.items() if name not in own}
        if extra:
            print(f"Missing keys: {sorted(extra)}")
        self.load_state_dict({name: weight.to(own[name].dtype) for name, weight in loaded.items() if name in own}, False)
        return extra or None

    def __enter__(self):
        self.is_active = True

    def __exit__(self, kind, error, frames):
        self.is_active = False

    def force_to(self, device, dtype):
        self.to(device, dtype)

    def get_all_modules(self):
        return self.unet_loras

    def merge_in(self, merge_weight=1.0):
        self.is_merged_in = True
        for module in self.get_all_modules():
            module.merge_in(merge_weight)

    def merge_out(self, merge_weight=1.0):
        if not self.is_merged_in:
            return
        self.is_merged_in = False
        for module in self.get_all_modules():
            module.merge_out(merge_weight)

    @property
    def multiplier(self):
        return self._multiplier

    @multiplier.setter
    def multiplier(self, value):
        self._multiplier = value
