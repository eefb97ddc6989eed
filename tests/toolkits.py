"""AI Toolkit for the tests: the stand-in of ``standins/ai_toolkit``, and the real one where the environment names it.

What is asserted of the one is asserted of the other by the same test, through the fixture ``toolkit``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from headroom.contracts import Event
from headroom.run.events import read_events

HERE = Path(__file__).resolve().parent
PROBE = HERE.parent / "headroom" / "probe" / "__main__.py"
STANDIN = HERE / "standins" / "ai_toolkit"
REAL_FOLDER, REAL_PYTHON = os.environ.get("HEADROOM_AI_TOOLKIT"), os.environ.get("HEADROOM_AI_TOOLKIT_PYTHON")
# An architecture of AI Toolkit's older kind (previews inline in a pipeline call) and one of the newer, and its folder.
MODELS = {"sd1": "sd15", "zimage": "zimage"}
STEPS = 4
# Each run has the same numbers from its seed; one thread each, so that runs beside others do not wait for cores.
ENVIRONMENT = {"SEED": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Toolkit:
    """An AI Toolkit and its Python; ``tiny`` holds random models (``sd15``, ``zimage``) and ``images`` for it."""

    name: str
    folder: Path
    python: Path
    maker: Path
    tiny: Path = Path()

    def with_models(self, folder: Path) -> Toolkit:
        """Make the tiny models in a folder."""
        command = [str(self.python), str(self.maker), str(folder)]
        done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return replace(self, tiny=folder)


def standin() -> Toolkit:
    """The stand-in, run with the Python of the tests. Skips the test where that has no torch."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch in the Python of the tests; `python tests` makes one that has it")
    return Toolkit("stand-in", STANDIN, Path(sys.executable), STANDIN / "tiny_models.py")


def real() -> Toolkit:
    """The AI Toolkit that the environment names. Skips the test where it names none."""
    if not (REAL_FOLDER and REAL_PYTHON):
        pytest.skip("AI Toolkit; set HEADROOM_AI_TOOLKIT and HEADROOM_AI_TOOLKIT_PYTHON")
    return Toolkit("real", Path(REAL_FOLDER), Path(REAL_PYTHON), HERE / "tiny_models.py")


BOTH = [pytest.param("stand-in"), pytest.param("real", marks=pytest.mark.ai_toolkit)]


@pytest.fixture(scope="session")
def standin_toolkit(tmp_path_factory: pytest.TempPathFactory) -> Toolkit:
    """The stand-in with its tiny models, for tests that want nothing else."""
    return standin().with_models(tmp_path_factory.mktemp("tiny") / "models")


@pytest.fixture(scope="session")
def real_toolkit(tmp_path_factory: pytest.TempPathFactory) -> Toolkit:
    """The real AI Toolkit with its tiny models."""
    return real().with_models(tmp_path_factory.mktemp("tiny") / "models")


@pytest.fixture(scope="session", params=BOTH)
def toolkit(request: pytest.FixtureRequest) -> Toolkit:
    """Each AI Toolkit there is, with its tiny models."""
    return request.getfixturevalue("standin_toolkit" if request.param == "stand-in" else "real_toolkit")


def job_data(
    toolkit: Toolkit, output: Path, architecture: str, preview: int = 128, steps: int = STEPS, heavy: bool = False
) -> dict[str, Any]:
    """A LoRA job with previews and saves in its few steps; a heavy one takes more to train than to cache its latents."""
    newer = architecture != "sd1"
    process = {
        "type": "diffusion_trainer" if newer else "sd_trainer",
        "training_folder": str(output),
        "network": {"type": "lora", "linear": 4, "linear_alpha": 4},
        "save": {"dtype": "float32", "save_every": 3, "max_step_saves_to_keep": 4},
        "datasets": [
            {
                "folder_path": str(toolkit.tiny / "images"),
                "caption_ext": "txt",
                "resolution": [128],
                "cache_latents": True,
                "num_workers": 0,
            }
        ],
        "train": {
            "batch_size": 4 if heavy else 1,
            "steps": steps,
            "gradient_checkpointing": not heavy,
            "train_unet": True,
            "train_text_encoder": False,
            "noise_scheduler": "flowmatch" if newer else "ddpm",
            "optimizer": "adamw",
            "lr": 1e-3,
            "dtype": "fp32",
        },
        "model": {"name_or_path": str(toolkit.tiny / MODELS[architecture]), "arch": architecture},
        "sample": {
            "sampler": "flowmatch" if newer else "ddpm",
            "sample_every": 2,
            "width": preview,
            "height": preview,
            "prompts": ["a thing", "a cat"],
            "neg": "",
            "seed": 42,
            "guidance_scale": 4,
            "sample_steps": 1,
        },
    }
    return {"job": "extension", "config": {"name": "tiny", "process": [process]}}


def write_job(toolkit: Toolkit, folder: Path, architecture: str, **how: Any) -> Path:
    """As ``job_data``, in a file of a folder that also takes what it makes."""
    job = folder / "job.json"
    job.write_text(json.dumps(job_data(toolkit, folder / "out", architecture, **how)), encoding="utf-8")
    return job


@dataclass(frozen=True)
class ProbeRun:
    """What a run of the probe left behind."""

    exit_code: int
    log: str
    events: list[Event]
    folder: Path

    def of(self, event: str) -> list[Event]:
        return [each for each in self.events if each.event == event]

    @property
    def phases(self) -> list[str]:
        return [f"{each.keys['phase']} {each.keys['state']}" for each in self.of("phase")]

    def peak(self, phase: str) -> float:
        ends = [each for each in self.of("phase") if each.keys["phase"] == phase and each.keys["state"] == "end"]
        return max(each.keys["peak"]["allocated_gib"] for each in ends)

    @property
    def finished(self) -> dict[str, Any]:
        assert self.events[-1].event == "finished"
        return dict(self.events[-1].keys)


def probe_command(
    toolkit: Toolkit, folder: Path, job: Path, *options: str, faults: dict[str, list[int]] | None = None
) -> list[str]:
    start = [str(PROBE)] if faults is None else [str(HERE / "probe_faults.py"), str(PROBE), json.dumps(faults)]
    events = str(folder / "events.jsonl")
    return [
        str(toolkit.python),
        *start,
        "--toolkit",
        str(toolkit.folder),
        "--job",
        str(job),
        "--events",
        events,
        *options,
    ]


def run_probe(
    toolkit: Toolkit, folder: Path, job: Path, *options: str, faults: dict[str, list[int]] | None = None
) -> ProbeRun:
    """The probe with a job to its end, its events in a folder, memory running out where ``faults`` says so."""
    done = subprocess.run(
        probe_command(toolkit, folder, job, *options, faults=faults),
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=600,
        check=False,
    )
    return ProbeRun(done.returncode, done.stdout, read_events(folder / "events.jsonl"), folder)
