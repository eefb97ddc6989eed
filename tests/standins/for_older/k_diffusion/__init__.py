"""k-diffusion as AI Toolkit before 0.10 imports it; only Stable Diffusion XL's own pipeline calls it."""
