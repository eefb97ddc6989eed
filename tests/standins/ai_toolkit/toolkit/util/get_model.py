from toolkit.extension import get_all
from toolkit.stable_diffusion_model import StableDiffusion


def get_model_class(config):
    for cls in get_all("AI_TOOLKIT_MODELS"):
        if cls.arch == config.arch:
            return cls
    return StableDiffusion
