from __future__ import annotations


class CompVisDenoiser:
    def __init__(self, *args: object) -> None:
        raise NotImplementedError("k-diffusion is not installed")


class CompVisVDenoiser(CompVisDenoiser):
    pass
