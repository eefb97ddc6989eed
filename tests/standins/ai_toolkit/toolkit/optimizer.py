import torch

# The 8 bit ones are not made on a CPU; their names get the whole ones here.
OPTIMIZERS = {
    "adam": torch.optim.Adam, "adam8": torch.optim.Adam, "adam8bit": torch.optim.Adam,
    "adamw": torch.optim.AdamW, "adamw8": torch.optim.AdamW, "adamw8bit": torch.optim.AdamW,
    "sgd": torch.optim.SGD, "adafactor": torch.optim.Adafactor,
}


def get_optimizer(params, optimizer_type="adam", learning_rate=1e-6, optimizer_params=None):
    if optimizer_type not in OPTIMIZERS:
        raise ValueError(f"Unknown optimizer type {optimizer_type}")
    return OPTIMIZERS[optimizer_type](params, lr=float(learning_rate), **(optimizer_params or {}))
