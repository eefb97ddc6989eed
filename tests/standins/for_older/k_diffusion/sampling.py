from __future__ import annotations


def get_sigmas_karras(*args: object, **kwargs: object) -> None:
    raise NotImplementedError("k-diffusion is not installed")


class BrownianTreeNoiseSampler:
    def __init__(self, *args: object) -> None:
        raise NotImplementedError("k-diffusion is not installed")
