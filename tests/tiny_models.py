"""Random models of a few MB in the layout of the real ones, and images to train on; run with AI Toolkit's Python.

``python tiny_models.py FOLDER``: FOLDER/sd15, FOLDER/zimage, FOLDER/images.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy
import torch
from diffusers import (
    AutoencoderKL,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    StableDiffusionPipeline,
    UNet2DConditionModel,
    ZImageTransformer2DModel,
)
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTokenizer,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

LETTERS = [chr(code) for code in range(33, 127)]


def autoencoder(channels: int, **more: object) -> AutoencoderKL:
    return AutoencoderKL(
        block_out_channels=[16, 16, 32, 32],
        down_block_types=["DownEncoderBlock2D"] * 4,
        up_block_types=["UpDecoderBlock2D"] * 4,
        latent_channels=channels,
        norm_num_groups=8,
        layers_per_block=1,
        **more,
    )


def stable_diffusion(folder: Path) -> None:
    words = [*LETTERS, *(letter + "</w>" for letter in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    (folder / "words").mkdir(parents=True)
    vocabulary, merges = folder / "words" / "vocab.json", folder / "words" / "merges.txt"
    vocabulary.write_text(json.dumps({word: number for number, word in enumerate(words)}), encoding="utf-8")
    merges.write_text("#version: 0.2\n", encoding="utf-8")
    ends = {"bos_token_id": len(words) - 2, "eos_token_id": len(words) - 1, "pad_token_id": len(words) - 1}
    text = CLIPTextConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, **ends
    )
    unet = UNet2DConditionModel(
        sample_size=32,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
    )
    StableDiffusionPipeline(
        vae=autoencoder(4),
        text_encoder=CLIPTextModel(text),
        tokenizer=CLIPTokenizer(str(vocabulary), str(merges), model_max_length=77),
        unet=unet,
        scheduler=EulerDiscreteScheduler(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)


def z_image(folder: Path) -> None:
    transformer = ZImageTransformer2DModel(
        all_patch_size=(2,),
        all_f_patch_size=(1,),
        in_channels=16,
        dim=64,
        n_layers=2,
        n_refiner_layers=1,
        n_heads=2,
        n_kv_heads=2,
        cap_feat_dim=32,
        axes_dims=[8, 12, 12],
        axes_lens=[1536, 512, 512],
    )
    transformer.save_pretrained(folder / "transformer")
    vae = autoencoder(16, scaling_factor=0.3611, shift_factor=0.1159, use_quant_conv=False, use_post_quant_conv=False)
    vae.save_pretrained(folder / "vae")
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *special]
    bytes_only = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_only,
        pad_token=special[0],
        eos_token=special[2],
        additional_special_tokens=special[1:2],
        model_max_length=128,
    )
    tokenizer.chat_template = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
    tokenizer.save_pretrained(folder / "tokenizer")
    text = Qwen3Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(text).save_pretrained(folder / "text_encoder")
    FlowMatchEulerDiscreteScheduler(shift=3.0).save_pretrained(folder / "scheduler")
    parts = {
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Qwen3ForCausalLM"],
        "tokenizer": ["transformers", "PreTrainedTokenizerFast"],
        "transformer": ["diffusers", "ZImageTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    index = {"_class_name": "ZImagePipeline", "_diffusers_version": "0.36.0", **parts}
    (folder / "model_index.json").write_text(json.dumps(index), encoding="utf-8")


def images(folder: Path) -> None:
    folder.mkdir()
    generator = numpy.random.default_rng(7)
    for number, (width, height) in enumerate([(256, 256), (256, 256), (192, 320)]):
        pixels = generator.integers(0, 255, (height, width, 3), dtype=numpy.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text("a thing", encoding="utf-8")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    torch.manual_seed(7)
    stable_diffusion(target / "sd15")
    z_image(target / "zimage")
    images(target / "images")
