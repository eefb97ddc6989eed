import os

import torch
from safetensors.torch import load_file, save_file


class PromptEmbeds:
    """The embeddings of one or more prompts: a tensor, or a list of tensors of differing length."""

    def __init__(self, text_embeds):
        self.text_embeds = text_embeds

    def to(self, *args, **kwargs):
        if isinstance(self.text_embeds, list):
            return PromptEmbeds([each.to(*args, **kwargs) for each in self.text_embeds])
        return PromptEmbeds(self.text_embeds.to(*args, **kwargs))

    def detach(self):
        if isinstance(self.text_embeds, list):
            return PromptEmbeds([each.detach() for each in self.text_embeds])
        return PromptEmbeds(self.text_embeds.detach())

    def clone(self):
        if isinstance(self.text_embeds, list):
            return PromptEmbeds([each.clone() for each in self.text_embeds])
        return PromptEmbeds(self.text_embeds.clone())

    def save(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        parts = self.text_embeds if isinstance(self.text_embeds, list) else {"text_embeds": self.text_embeds}
        if isinstance(parts, list):
            parts = {f"text_embeds_{number}": each for number, each in enumerate(parts)}
        save_file({name: each.detach().cpu().contiguous() for name, each in parts.items()}, path)

    @classmethod
    def load(cls, path):
        parts = load_file(path, device="cpu")
        return cls(parts["text_embeds"] if "text_embeds" in parts else [parts[name] for name in sorted(parts)])


def concat_prompt_embeds(each):
    if isinstance(each[0].text_embeds, list):
        return PromptEmbeds([embeds for one in each for embeds in one.text_embeds])
    return PromptEmbeds(torch.cat([one.text_embeds for one in each]))
