import torch


class FakeTextEncoder(torch.nn.Module):
    def __init__(self, device, dtype):
        super().__init__()
        self.device, self.dtype = device, dtype

    def forward(self, *args, **kwargs):
        raise NotImplementedError("This is a fake text encoder and should not be used for inference.")

    def to(self, *args, **kwargs):
        return self


def unload_text_encoder(model):
    fake = FakeTextEncoder(model.device_torch, model.torch_dtype)
    if isinstance(model.text_encoder, list):
        model.pipeline.text_encoder = fake
        model.text_encoder = [fake]
    else:
        model.text_encoder = fake
