"""``python tiny_models.py FOLDER``: FOLDER/sd15, FOLDER/zimage (random weights, a few MB) and FOLDER/images."""

import json
import sys
from pathlib import Path

import numpy
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from diffusers import AutoencoderKL, UNet2DConditionModel, ZImageTransformer2DModel
from PIL import Image
from toolkit.text_encoder import TextEncoder


def model(folder, kind, **parts):
    for name, part in parts.items():
        part.save_pretrained(folder / name)
    index = {"_class_name": kind, **{name: ["diffusers", type(part).__name__] for name, part in parts.items()}}
    (folder / "model_index.json").write_text(json.dumps(index), encoding="utf-8")


def images(folder):
    folder.mkdir()
    generator = numpy.random.default_rng(7)
    for number, (width, height) in enumerate([(256, 256), (256, 256), (192, 320)]):
        pixels = generator.integers(0, 255, (height, width, 3), dtype=numpy.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text("a thing", encoding="utf-8")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    torch.manual_seed(7)
    model(
        target / "sd15", "StableDiffusionPipeline",
        unet=UNet2DConditionModel(), vae=AutoencoderKL(4), text_encoder=TextEncoder(),
    )
    model(
        target / "zimage", "ZImagePipeline",
        transformer=ZImageTransformer2DModel(), vae=AutoencoderKL(16, scaling_factor=0.3611, shift_factor=0.1159),
        text_encoder=TextEncoder(),
    )
    images(target / "images")
