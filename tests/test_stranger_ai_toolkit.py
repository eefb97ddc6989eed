"""The rules for strangers' jobs, held to a real AI Toolkit: what it reads in a job made safe, and what its keys are."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headroom import configs
from headroom.job import read_job
from headroom.job.stranger import Rules, vet

pytestmark = pytest.mark.ai_toolkit
FOLDER = os.environ.get("HEADROOM_AI_TOOLKIT")
PYTHON = os.environ.get("HEADROOM_AI_TOOLKIT_PYTHON")
if not (FOLDER and PYTHON):
    pytest.skip("AI Toolkit; set HEADROOM_AI_TOOLKIT and HEADROOM_AI_TOOLKIT_PYTHON", allow_module_level=True)

# Keys whose names speak of files, and whose text is none: kinds, sizes, switches, names inside a repository.
NO_FILES = {
    "accuracy_recovery_adapter",  # listed by its full path
    "adapter",
    "adapter_type",
    "adapter_assist_type",
    "caption_ext",  # may not look like a path, as every other text
    "hf_repo_id",
    "image_encoder_arch",
    "text_encoder_arch",
    "text_encoder_subfolder",
    "use_adapter",
}
_KEY = re.compile(r"""(?:kwargs|config|model_kwargs)\.get\(\s*['"](\w+)['"]|get_conf\(\s*['"](\w+)['"]""")
_OF_A_FILE = re.compile(
    r"path|folder|dir$|dir_|file(?!r)|(?:^|_)im(?:age|g)s?$|tensors$|name_or|adapter(?:_type|_assist_type)?$|repo|_ext$|_arch$"
)

HOSTILE = """\
job: extension
config:
  name: "a [x] \\u732b"
  process:
    - &first
      type: sd_trainer
      name: ../../elsewhere
      training_folder: &out "/etc/[name]"   # here
      log_dir: *out
      save: {push_to_hub: yes, hf_repo_id: thief/stolen}
      logging: {use_wandb: 1}
      model: {name_or_path: author/model}
      train: {steps: 10, lr: 1e-4}
    - <<: *first
      sqlite_db_path: 'C:\\users\\me'
"""


def test_ai_toolkit_reads_a_job_made_safe_as_safe(tmp_path: Path) -> None:
    rules = Rules(tmp_path / "runs", (), Path(str(FOLDER)))
    vetted = vet(read_job(HOSTILE), rules, {})
    assert vetted.job is not None, vetted.refusals
    file = tmp_path / "job.yaml"
    file.write_text(vetted.job.text, encoding="utf-8", newline="")
    script = (
        "import json, sys; sys.path.insert(0, ''); from toolkit.config import get_config; "
        "print('read ' + json.dumps(get_config(sys.argv[1])))"
    )
    done = subprocess.run(
        [str(PYTHON), "-c", script, str(file)], cwd=FOLDER, capture_output=True, text=True, check=True
    )
    read: dict[str, Any] = json.loads(done.stdout.rpartition("read ")[2])
    assert len(read["config"]["process"]) == 2
    for process in read["config"]["process"]:
        assert process["training_folder"] == str(tmp_path / "runs")
        assert process["log_dir"] == str(tmp_path / "runs" / "tensorboard")
        assert process.get("name") == read["config"]["name"]
        assert process["save"]["push_to_hub"] is False and process["logging"]["use_wandb"] is False
        assert process["train"] == {"steps": 10, "lr": 0.0001}
    assert read["config"]["process"][1]["sqlite_db_path"] == str(tmp_path / "runs" / "aitk_db.db")


def test_every_key_of_its_own_that_names_a_file_is_judged_as_one() -> None:
    table = configs.load("stranger")
    named = re.compile(table["reads_named"])
    root = Path(str(FOLDER))
    sources = [
        root / "toolkit" / "config_modules.py",
        *sorted((root / "jobs" / "process").glob("Base*.py")),
        *sorted((root / "extensions_built_in" / "sd_trainer").rglob("*.py")),
        *sorted((root / "extensions_built_in" / "concept_slider").rglob("*.py")),
        *sorted((root / "extensions_built_in" / "diffusion_models").rglob("*.py")),
    ]
    keys = {a or b for source in sources for a, b in _KEY.findall(source.read_text(encoding="utf-8"))}
    assert {"folder_path", "name_or_path", "ctrl_img", "training_folder", "test_img_path"} <= keys
    unjudged = {key for key in keys if _OF_A_FILE.search(key) and not named.search(key)} - NO_FILES
    assert {key for key in unjudged if not key.startswith(("cache_", "load_", "num_"))} == set()
