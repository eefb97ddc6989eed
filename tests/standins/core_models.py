"""Nodes for the tests' ComfyUI: tiny models made of core's own classes, and what a LoRA put onto them.

Copied into ``custom_nodes`` as it is. Sizes are those of the tiny models that the LoRAs are trained on.
"""

import comfy.model_patcher
import comfy.supported_models
import torch

CPU = torch.device("cpu")
SD15 = {
    "image_size": 32,
    "in_channels": 4,
    "out_channels": 4,
    "model_channels": 32,
    "num_res_blocks": [1, 1],
    "channel_mult": [1, 2],
    "transformer_depth": [0, 1],
    "transformer_depth_output": [0, 0, 1, 1],
    "transformer_depth_middle": 1,
    "context_dim": 32,
    "num_heads": 8,
    "use_spatial_transformer": True,
    "use_linear_in_transformer": False,
    "legacy": False,
    "dtype": torch.float32,
}
Z_IMAGE = {
    "image_model": "lumina2",
    "patch_size": 2,
    "in_channels": 16,
    "dim": 64,
    "cap_feat_dim": 32,
    "n_layers": 2,
    "n_refiner_layers": 1,
    "qk_norm": True,
    "n_heads": 2,
    "n_kv_heads": 2,
    "axes_dims": [8, 12, 12],
    "axes_lens": [1536, 512, 512],
    "rope_theta": 256.0,
    "ffn_dim_multiplier": 8.0 / 3.0,
    "multiple_of": 1,
    "z_image_modulation": True,
    "time_scale": 1000.0,
    "pad_tokens_multiple": 32,
    "dtype": torch.float32,
}


class TinyCoreModel:
    CATEGORY = "tests"
    RETURN_TYPES = ("MODEL",)
    FUNCTION = "make"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"architecture": (["sd1", "zimage"],)}}

    def make(self, architecture):
        supported = comfy.supported_models
        config = supported.SD15(dict(SD15)) if architecture == "sd1" else supported.ZImage(dict(Z_IMAGE))
        model = config.get_model({}, "", device=CPU)
        return (comfy.model_patcher.ModelPatcher(model, load_device=CPU, offload_device=CPU),)


class CountPatches:
    CATEGORY = "tests"
    RETURN_TYPES = ()
    FUNCTION = "count"
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",)}}

    def count(self, model):
        """Each module of the LoRA is one patch, and its shape is that of the weight it goes to."""
        weights = model.model.state_dict()
        fitting = 0
        for key, patches in model.patches.items():
            for _, adapter, _, offset, _ in patches:
                up, down = adapter.weights[0], adapter.weights[1]
                rows = offset[2] if offset else weights[key].shape[0]
                fitting += up.shape[0] == rows and down.shape[1] == weights[key].shape[1]
        return {"ui": {"patches": [sum(len(each) for each in model.patches.values())], "fitting": [fitting]}}


NODE_CLASS_MAPPINGS = {"TinyCoreModel": TinyCoreModel, "CountPatches": CountPatches}
