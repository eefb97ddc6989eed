"""Train a tiny model for real in the graph: AI Toolkit on the CPU, its tensors counted against a budget.

The budget is enough to train and too small for the previews as the job asks for them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .comfyui import ComfyUI, ComfyUIFailure
from .environment import ROOT

MAKER = ROOT / "tests" / "tiny_models.py"
STEPS = 6
# Measured with this job: training takes 5.4 MiB at its worst, a preview of 256 pixels 25 MiB, of 128 pixels 10 MiB.
BUDGET_GIB = 0.02
JOB = """\
job: extension
config:
  name: tiny_demo
  process:
    - type: sd_trainer
      training_folder: output
      device: cpu
      network: {{type: lora, linear: 4, linear_alpha: 4}}
      save: {{dtype: float32, save_every: 3, max_step_saves_to_keep: 2}}
      datasets:
        - {{folder_path: "{folder}/images", caption_ext: txt, resolution: [128], cache_latents: true, num_workers: 0}}
      train:
        batch_size: 1
        steps: {steps}
        gradient_checkpointing: true
        train_unet: true
        train_text_encoder: false
        noise_scheduler: ddpm
        optimizer: adamw
        lr: 1e-3
        dtype: fp32
      model: {{name_or_path: "{folder}/sd15", arch: sd1}}
      sample:
        {{sampler: ddpm, sample_every: 3, width: 256, height: 256, prompts: [a thing, a cat], neg: "", seed: 42,
          guidance_scale: 4, sample_steps: 2}}
"""


class NoToolkit(Exception):
    """There is no AI Toolkit to train with; the text says why, and what to do."""


@dataclass(frozen=True)
class Trainer:
    """An AI Toolkit and the Python that runs it."""

    folder: Path
    python: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a ComfyUI is told: to train with this one, and on the CPU, where every byte can be counted."""
        named = {"HEADROOM_AI_TOOLKIT": str(self.folder), "HEADROOM_AI_TOOLKIT_PYTHON": str(self.python)}
        return named | {"CUDA_VISIBLE_DEVICES": "", "SEED": "1", "HF_HUB_OFFLINE": "1"}


def find(named: str | None, python: Path) -> Trainer | None:
    """AI Toolkit in the folder named, else as the settings name it; ``None`` where none is named and none is set up.

    ``python`` is one that can import the core. Raises NoToolkit for one that is named and cannot be used.
    """
    question = (
        "import json\nfrom headroom.run.locate import *\n"
        "try:\n    found = find_toolkit()\n    print(json.dumps([str(found.folder), str(find_python(found))]))\n"
        "except LocateError as error:\n    print(json.dumps(str(error)))\n"
    )
    environment = {**os.environ, **({"HEADROOM_AI_TOOLKIT": named} if named else {})}
    done = subprocess.run([str(python), "-c", question], cwd=ROOT, env=environment, capture_output=True, check=True)
    answer = json.loads(done.stdout)
    if isinstance(answer, list):
        return Trainer(Path(answer[0]), Path(answer[1]))
    if named or os.environ.get("HEADROOM_AI_TOOLKIT"):
        raise NoToolkit(answer)
    return None


def train(comfyui: ComfyUI, trainer: Trainer, out: Path) -> None:
    """Train the tiny model in that ComfyUI and say what came of it. Raises ComfyUIFailure where it does not finish."""
    tiny = comfyui.base / "input" / "tiny"
    shutil.rmtree(tiny, ignore_errors=True)
    made = subprocess.run([str(trainer.python), str(MAKER), str(tiny)], capture_output=True, text=True, check=False)
    if made.returncode:
        raise ComfyUIFailure(f"The tiny model could not be made with {trainer.python}:\n{made.stderr[-2000:]}")
    job = JOB.format(folder=tiny.as_posix(), steps=STEPS)
    (comfyui.base / "input" / "tiny_demo.yaml").write_text(job, encoding="utf-8")
    within = f"{BUDGET_GIB * 1024:.0f} MiB"
    print(f"\nTraining a tiny Stable Diffusion LoRA on the CPU, {STEPS} steps within {within} …", flush=True)
    history = comfyui.run(_graph(), timeout_s=900)
    if history["status"]["status_str"] != "success":
        raise ComfyUIFailure(f"Training failed: {json.dumps(history['status']['messages'][-1], indent=2)}")
    panels = history["outputs"]["train"]["headroom"]
    panel = next((panel for panel in panels if panel.get("lang") == "en"), panels[0])
    _show(panel)
    (out / "training.json").write_text(json.dumps(panel, ensure_ascii=False, indent=2), encoding="utf-8")
    if panel["outcome"] != "finished":
        raise ComfyUIFailure("The training did not finish.")
    print(f"\nThe run's folder: {comfyui.base / 'output' / 'headroom' / panel['run']}")


def _graph() -> dict[str, Any]:
    """Load a job, say what it may take, train it: three nodes, as the page would send them."""
    return {
        "job": {"class_type": "HeadroomLoadJob", "inputs": {"job_file": "tiny_demo.yaml"}},
        "budget": {
            "class_type": "HeadroomMemoryBudget",
            "inputs": {"gpu": "auto", "vram": BUDGET_GIB, "unit": "GiB", "reserve_gib": 0.0, "mode": "enforce"},
        },
        "train": {
            "class_type": "HeadroomTrain",
            "inputs": {"job": ["job", 0], "budget": ["budget", 0], "train_again": True},
        },
    }


def _show(panel: dict[str, Any]) -> None:
    print(f"\n{panel['title']}")
    for line in (*panel["told"], *(f"  {each}" for each in panel["lines"])):
        print(line)
    for name, value in panel["facts"]:
        print(f"  {name}: {value}")
    if panel["peaks"]:
        print("\n  " + " | ".join(panel["peaks_head"]))
        for row in panel["peaks"]:
            print("  " + " | ".join(row))
