def get_train_sd_device_state_preset(
    device, train_unet=False, train_text_encoder=False, cached_latents=False, unload_text_encoder=False
):
    """Where the parts of a model lie while a LoRA is trained."""
    return {
        "vae": {"training": False, "device": "cpu" if cached_latents else device, "requires_grad": False},
        "unet": {"training": train_unet, "device": device, "requires_grad": False},
        "text_encoder": {
            "training": False, "device": "cpu" if unload_text_encoder else device, "requires_grad": False,
        },
    }
