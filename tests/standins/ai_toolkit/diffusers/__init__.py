"""The few classes of diffusers that AI Toolkit's two architectures here need, small and by themselves."""

from .autoencoder import AutoencoderKL
from .pipelines import DiffusionPipeline, StableDiffusionPipeline, ZImagePipeline
from .unet import UNet2DConditionModel
from .z_image import ZImageTransformer2DModel
