import math
import weakref

import torch

from toolkit.network_mixins import ToolkitModuleMixin, ToolkitNetworkMixin


class LoRAModule(ToolkitModuleMixin, torch.nn.Module):
    """Adds its own small weights to what one linear layer, or one 1x1 convolution, gives."""

    def __init__(self, lora_name, org_module, lora_dim, alpha, network):
        torch.nn.Module.__init__(self)
        ToolkitModuleMixin.__init__(self, network)
        self.lora_name = lora_name
        if isinstance(org_module, torch.nn.Conv2d):
            self.lora_down = torch.nn.Conv2d(org_module.in_channels, lora_dim, 1, bias=False)
            self.lora_up = torch.nn.Conv2d(lora_dim, org_module.out_channels, 1, bias=False)
        else:
            self.lora_down = torch.nn.Linear(org_module.in_features, lora_dim, bias=False)
            self.lora_up = torch.nn.Linear(lora_dim, org_module.out_features, bias=False)
        self.register_buffer("alpha", torch.tensor(float(alpha)))
        self.scale = float(alpha) / lora_dim
        torch.nn.init.kaiming_uniform_(self.lora_down.weight, a=math.sqrt(5))
        torch.nn.init.zeros_(self.lora_up.weight)
        self.org_module = [org_module]  # in a list, so that it is none of our own modules

    def apply_to(self):
        self.org_forward = self.org_module[0].forward
        self.org_module[0].forward = self.forward


class LoRASpecialNetwork(ToolkitNetworkMixin, torch.nn.Module):
    def __init__(
        self, text_encoder, unet, lora_dim=4, multiplier=1.0, alpha=1, train_unet=True, train_text_encoder=False,
        network_config=None, network_type="lora", transformer_only=False, is_transformer=False, base_model=None,
        target_lin_modules=("Transformer2DModel",),
    ):
        super().__init__()
        self.base_model_ref = weakref.ref(base_model)
        self.network_config, self.network_type = network_config, network_type
        self.is_active = self.is_merged_in = False
        self.can_merge_in, self.did_change_weights = True, False
        self.multiplier = multiplier
        self.peft_format = is_transformer
        alpha = lora_dim if self.peft_format else alpha
        print(f"create LoRA network. base dim (rank): {lora_dim}, alpha: {alpha}")
        print("neuron dropout: p=None, rank dropout: p=None, module dropout: p=None")
        print("create LoRA for Text Encoder: 0 modules.")
        self.unet_loras = []
        blocks = base_model.get_transformer_block_names() if transformer_only and is_transformer else None
        prefix = "transformer" if self.peft_format else "lora_unet"
        for name, module in unet.named_modules() if train_unet else ():
            if type(module).__name__ not in target_lin_modules:
                continue
            for child_name, child in module.named_modules():
                clean = ".".join(part for part in (prefix, name, child_name) if part)
                small = isinstance(child, torch.nn.Conv2d) and child.kernel_size == (1, 1)
                if not (small or isinstance(child, torch.nn.Linear)):
                    continue
                if blocks is None or any(block in clean for block in blocks):
                    lora_name = clean.replace(".", "$$" if self.peft_format else "_")
                    self.unet_loras.append(LoRAModule(lora_name, child, lora_dim, alpha, self))
        print(f"create LoRA for U-Net: {len(self.unet_loras)} modules.")

    def apply_to(self, text_encoder, unet, apply_text_encoder=True, apply_unet=True):
        print("enable LoRA for U-Net")
        for lora in self.unet_loras:
            lora.apply_to()
            self.add_module(lora.lora_name, lora)

    def prepare_grad_etc(self, text_encoder, unet):
        self.requires_grad_(True)

    def prepare_optimizer_params(self, text_encoder_lr, unet_lr, default_lr):
        return [{"params": [weight for lora in self.unet_loras for weight in lora.parameters()], "lr": unet_lr}]
