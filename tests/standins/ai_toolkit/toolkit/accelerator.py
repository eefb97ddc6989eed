"""What AI Toolkit asks of accelerate, for one process."""

from contextlib import contextmanager

import torch


class AcceleratedOptimizer:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __getattr__(self, name):
        return getattr(self.optimizer, name)


class Accelerator:
    is_main_process = is_local_main_process = True

    def __init__(self):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.even_batches = True

    def prepare(self, thing):
        if isinstance(thing, torch.optim.Optimizer):
            return AcceleratedOptimizer(thing)
        return thing.to(self.device) if isinstance(thing, torch.nn.Module) else thing

    def unwrap_model(self, thing):
        return thing.optimizer if isinstance(thing, AcceleratedOptimizer) else thing

    def backward(self, loss):
        loss.backward()

    def clip_grad_norm_(self, parameters, max_norm):
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm)

    @contextmanager
    def accumulate(self, models):
        yield

    @contextmanager
    def main_process_first(self):
        yield

    def wait_for_everyone(self):
        pass

    def end_training(self):
        pass


global_accelerator = None


def get_accelerator():
    global global_accelerator
    if global_accelerator is None:
        global_accelerator = Accelerator()
    return global_accelerator


def unwrap_model(model):
    return get_accelerator().unwrap_model(model)
