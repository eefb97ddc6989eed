"""``python -m headroom diagnose``: what other programs and people rely on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
LOG = """Generating baseline samples before training
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.50 GiB. GPU 0 has a total capacity of 23.64 GiB of which 419.84 MiB is free. Including non-PyTorch memory, this process has 23.20 GiB memory in use.
"""
JOB = """job: extension
config:
  name: lora  # mine
  process:
    - type: sd_trainer
      train:
        batch_size: 4
        gradient_checkpointing: true
      datasets:
        - folder_path: data
          resolution: [512, 768, 1024]
      model:
        name_or_path: black-forest-labs/FLUX.1-dev
        arch: flux
        quantize: true
      sample:
        width: 1024
        height: 1024
        prompts: [a thing]
"""


def headroom(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "headroom", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, check=False, timeout=60)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    log, job = tmp_path / "log.txt", tmp_path / "job.yaml"
    log.write_text(LOG, encoding="utf-8")
    job.write_text(JOB, encoding="utf-8")
    return log, job


def test_json_is_one_object_with_the_promised_keys(files: tuple[Path, Path]) -> None:
    run = headroom("diagnose", "--json", "--log", files[0], "--job", files[1])
    answer = json.loads(run.stdout)
    assert run.returncode == 0 and run.stderr == b""
    promised = "memory_failure class cause stage advice confidence summary evidence numbers steps warnings changes"
    assert answer.keys() >= set(promised.split())
    assert (answer["cause"], answer["stage"], answer["advice"]) == ("vram", "baseline_sample", "change_job")
    assert answer["changes"] and answer["changes"][0].keys() >= {
        "lever",
        "path",
        "old",
        "new",
        "reason",
        "price",
        "where",
    }
    assert answer["numbers"]["requested_gib"] == 4.5


def test_the_corrected_job_differs_only_where_it_says(files: tuple[Path, Path], tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.yaml"
    answer = json.loads(
        headroom("diagnose", "--json", "--log", files[0], "--job", files[1], "-o", fixed, "--no-comments").stdout
    )
    before, after = JOB.splitlines(), fixed.read_text(encoding="utf-8").splitlines()
    assert answer["written"] == str(fixed)
    gone = [line for line in before if line not in after]
    assert len(gone) <= len(answer["changes"])
    assert "  name: lora  # mine" in after
    assert yaml.safe_load("\n".join(after))["config"]["name"] == "lora"


def test_comments_give_the_reasons_in_the_asked_language(files: tuple[Path, Path], tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.yaml"
    headroom("diagnose", "--log", files[0], "--job", files[1], "-o", fixed, "--lang", "zh")
    added = [line for line in fixed.read_text(encoding="utf-8").splitlines() if line not in JOB.splitlines()]
    assert any("#" in line and any("\u4e00" <= character <= "\u9fff" for character in line) for line in added)


def test_a_log_comes_from_standard_input_or_a_folder_of_the_ui(files: tuple[Path, Path]) -> None:
    for arguments in (("--log", "-"), ("--run", files[0].parent)):
        answer = json.loads(headroom("diagnose", "--json", *arguments, stdin=LOG.encode()).stdout)
        assert answer["cause"] == "vram", arguments


def test_the_report_is_readable_in_both_languages(files: tuple[Path, Path]) -> None:
    english = headroom("diagnose", "--log", files[0], "--job", files[1], "--lang", "en").stdout.decode()
    chinese = headroom("diagnose", "--log", files[0], "--job", files[1], "--lang", "zh").stdout.decode()
    assert "ran out of memory" in english and "→" in english
    assert "显存" in chinese


@pytest.mark.parametrize(
    "arguments",
    [
        ("diagnose",),
        ("diagnose", "--log", "no/such/file"),
        ("diagnose", "--log", "-", "--job", "no/such/job.yaml"),
        ("diagnose", "--log", "-", "--exit-code", "many"),
        ("explode",),
    ],
)
def test_a_wrong_call_says_so_in_one_line_and_exits_with_2(arguments: tuple[str, ...]) -> None:
    run = headroom(*arguments)
    assert run.returncode == 2 and run.stdout == b""
    assert len(run.stderr.decode().strip().splitlines()) == 1


def test_a_wrong_job_names_its_line_and_the_way_out(files: tuple[Path, Path]) -> None:
    files[1].write_text("job: extension\nconfig:\n  name: x\n  process: nothing\n", encoding="utf-8")
    run = headroom("diagnose", "--log", files[0], "--job", files[1], "--lang", "en")
    assert run.returncode == 2 and b"process" in run.stderr and b"4" in run.stderr


def test_a_locked_key_is_left_alone(files: tuple[Path, Path]) -> None:
    locked = ("--lock", "sample", "--lock", "train.disable_sampling", "--lock", "train.skip_first_sample")
    answer = json.loads(headroom("diagnose", "--json", "--log", files[0], "--job", files[1], *locked).stdout)
    assert not any(each["path"].startswith(("sample", "train.disable", "train.skip")) for each in answer["changes"])


def test_a_call_loads_its_own_verb_only(files: tuple[Path, Path]) -> None:
    program = (
        "import sys\nfrom headroom.cli import main\n"
        "main(sys.argv[1:])\n"
        "print(sorted(name for name in sys.modules if name.startswith(('headroom.verbs.', 'headroom.run', "
        "'headroom.setup', 'headroom.memory', 'subprocess', 'urllib.request', 'zipfile', 'tarfile'))), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "diagnose", "--log", str(files[0]), "--job", str(files[1]), "--json"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60)
    assert run.stderr.decode().strip() == "['headroom.verbs.answers', 'headroom.verbs.diagnose']"


@pytest.mark.parametrize("verb", ["diagnose", "train", "runs", "doctor", "setup"])
def test_every_verb_explains_itself_and_answers_in_both_languages(verb: str) -> None:
    run = headroom(verb, "--help")
    assert run.returncode == 0 and run.stderr == b""
    assert b"--json" in run.stdout and b"--lang" in run.stdout and verb.encode() in headroom("--help").stdout
