import torch

TYPES = {"float32": torch.float32, "fp32": torch.float32, "float": torch.float32, "float16": torch.float16,
         "fp16": torch.float16, "bfloat16": torch.bfloat16, "bf16": torch.bfloat16}


def get_torch_dtype(name):
    return TYPES.get(name, name)
