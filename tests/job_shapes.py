"""Jobs for every architecture that Headroom has facts of, in the shapes people bring: made from ``configs/``."""

from __future__ import annotations

from headroom import configs
from headroom.guard.architectures import Architecture, architecture

ARCHITECTURES = tuple(
    configs.load(f"architectures/{file.name.removesuffix('.yaml')}")["arch"]
    for file in sorted((configs.FOLDER / "architectures").glob("*.yaml"))
    if file.name not in ("index.yaml", "generic.yaml")
)


def _flag(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _frames(about: Architecture, wanted: int) -> int:
    return about.frames.at_most(wanted) if about.frames else wanted


def typical(arch: str, media: str) -> str:
    """What AI Toolkit's form writes for a new job, with two pictures to preview."""
    about = architecture(arch)
    start = about.starts_with
    frames = _frames(about, 81) if media == "video" else 1
    automatic = media == "video" and start("datasets[].auto_frame_count") is True
    extra = f"\n          assistant_lora_path: {_ADAPTERS[arch]}" if arch in _ADAPTERS else ""
    return f"""\
---
job: extension
config:
  name: my_first_lora_v1
  process:
    - type: diffusion_trainer
      training_folder: output
      sqlite_db_path: ./aitk_db.db
      device: cuda
      trigger_word: null
      performance_log_every: 10
      network:
        type: lora
        linear: 32
        linear_alpha: 32
        network_kwargs:
          ignore_if_contains: []
      save:
        dtype: bf16
        save_every: 250
        max_step_saves_to_keep: 4
        save_format: diffusers
        push_to_hub: false
      datasets:
        - folder_path: /data/images
          mask_path: null
          default_caption: ""
          caption_ext: txt
          caption_dropout_rate: 0.05
          cache_latents_to_disk: {_flag(start("datasets[].cache_latents_to_disk"))}
          is_reg: false
          network_weight: 1
          resolution:
            - 512
            - 768
            - 1024
          controls: []
          shrink_video_to_frames: true
          num_frames: {frames}
          auto_frame_count: {_flag(automatic)}
          flip_x: false
          flip_y: false
      train:
        batch_size: 1
        bypass_guidance_embedding: false
        steps: 3000
        gradient_accumulation: 1
        train_unet: true
        train_text_encoder: false
        gradient_checkpointing: true
        noise_scheduler: flowmatch
        optimizer: adamw8bit
        timestep_type: sigmoid
        content_or_style: balanced
        optimizer_params:
          weight_decay: 0.0001
        unload_text_encoder: false
        cache_text_embeddings: {_flag(start("train.cache_text_embeddings") is True)}
        lr: 0.0001
        ema_config:
          use_ema: false
          ema_decay: 0.99
        skip_first_sample: false
        force_first_sample: false
        disable_sampling: false
        dtype: bf16
        switch_boundary_every: 1
        loss_type: mse
      model:
        name_or_path: somebody/some-model
        quantize: {_flag(start("model.quantize"))}
        qtype: {start("model.qtype")}
        quantize_te: {_flag(start("model.quantize_te"))}
        qtype_te: {start("model.qtype_te")}
        arch: "{arch}"
        low_vram: {_flag(start("model.low_vram"))}
        model_kwargs: {{}}{extra.replace("          ", "        ")}
      sample:
        sampler: flowmatch
        sample_every: 250
        width: {start("sample.width")}
        height: {start("sample.height")}
        samples:
          - prompt: "woman with red hair, playing chess at the park"
          - prompt: "a person holding a sign that says 'this is a sign'"
        neg: ""
        seed: 42
        walk_seed: true
        guidance_scale: 4
        sample_steps: 30
        num_frames: {frames}
        fps: 16
meta:
  name: "[name]"
  version: "1.0"
"""


# Architectures whose form starts with a training adapter: it excludes a recovery adapter.
_ADAPTERS = {
    "zimage:turbo": "somebody/adapter/adapter_v2.safetensors",
    "krea2:turbo": "somebody/adapter/v1.safetensors",
}


def conservative(arch: str, media: str) -> str:
    """A job that already is as small as the guide asks, in one dataset with one small bucket."""
    about = architecture(arch)
    frames = about.frames.shortest_clip if about.frames and media == "video" else 1
    caches_text = about.effect("cache_text_embeddings") in ("works", "without_previews")
    offloads = bool(about.lowers("layer_offloading"))
    quantizes = about.effect("quantize") is True
    adapter = about.recovery_adapters[-1] if about.recovery_adapters and about.effect("accuracy_recovery") else "uint4"
    qtype = (
        f'"{adapter}"' if quantizes and about.memory.get("load") != "prequantized" else about.starts_with("model.qtype")
    )
    return f"""\
job: extension
config:
  name: small
  process:
  - type: sd_trainer
    training_folder: output
    network: {{type: lora, linear: 16, linear_alpha: 16}}
    save: {{dtype: float16, save_every: 250, max_step_saves_to_keep: 4}}
    datasets:
    - folder_path: /data/images
      resolution: [256]
      num_frames: {frames}
      cache_latents_to_disk: {_flag(about.effect("cache_latents") == "works")}
      num_workers: 0
      prefetch_factor: null
    train:
      batch_size: 1
      gradient_accumulation: 4
      gradient_checkpointing: true
      cache_text_embeddings: {_flag(caches_text)}
      disable_sampling: true
      dtype: bf16
      lr: 1e-4
      steps: 2000
      optimizer: adamw8bit
    model:
      name_or_path: somebody/some-model
      arch: "{arch}"
      quantize: {_flag(quantizes)}
      quantize_te: {_flag(about.effect("quantize_te") in ("own", "transformer"))}
      qtype: {qtype}
      low_vram: true
      layer_offloading: {_flag(offloads)}
"""


def heavy(arch: str, media: str) -> str:
    """A job with everything turned up: three datasets in several styles, previews with sizes of their own, comments."""
    about = architecture(arch)
    frames = _frames(about, 121) if media == "video" else 1
    long_frames = frames if frames == 1 else _frames(about, 161)
    automatic = "true" if media == "video" else "false"
    recovery = about.effect("unload_text_encoder")
    return f"""\
# my big run  中文注释
job: 'extension'
config:
  name: "big"   # keep
  process:
    - type: 'sd_trainer'
      training_folder: "/workspace/output"
      performance_log_every: 0
      network:
        type: "lora"
        linear: 64
        linear_alpha: 64
      save: {{ dtype: bf16, save_every: 250, max_step_saves_to_keep: 4 }}  # flow
      datasets:
        # the good pictures
        - &first
          folder_path: "/data/one"
          caption_ext: "txt"
          resolution: [ 512, 768, 1024, 1536 ]  # all of them
          batch_size: 4
          num_frames: {frames}
          num_workers: 4
          cache_latents: true
        - folder_path: "/data/two"
          resolution: 1536
          num_frames: {long_frames}
          cache_latents: true
        - {{ folder_path: "/data/three", resolution: [1024], num_frames: {frames}, auto_frame_count: {automatic}, is_reg: true }}
      train:
        batch_size: 2
        steps: 4000
        gradient_accumulation: 1
        gradient_checkpointing: false   # faster
        noise_scheduler: "flowmatch"
        optimizer: "adamw8bit"
        lr: 1e-4
        ema_config:
          use_ema: true
          ema_decay: 0.99
        dtype: fp32
        unload_text_encoder: false  # {recovery}
      model:
        name_or_path: "somebody/some-model"
        arch: "{arch}"
        quantize: false
        quantize_te: false
      first_sample:
        width: 1280
        height: 1280
        prompts: ["first light --w 1536 --h 1024"]
      sample:
        sampler: "flowmatch"
        sample_every: 100
        width: 1024
        height: 1024
        num_frames: {frames}
        samples:
          - prompt: "a cat"
            width: 1536
            height: 1152
          - prompt: "a dog --h 2048 --w 1024"
          - {{ prompt: "a bird", num_frames: {long_frames}, width: 768 }}
        seed: 42
"""


SHAPES = {"typical": typical, "conservative": conservative, "heavy": heavy}
