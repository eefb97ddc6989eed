import gc
import os

import torch


def flush(garbage_collect=True):
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if garbage_collect:
        gc.collect()


def get_quick_signature_string(path):
    state = os.stat(path)
    return f"{state.st_size}:{int(state.st_mtime)}"
