"""Pasted text is kept masked, under a name made of its content, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from headroom_pack.headroom.job import JobError
from headroom_pack.nodes.errors import InputError
from headroom_pack.nodes.pasted import LARGEST_BYTES, keep, was_masked

TOKEN = "hf_" + "aB3" * 11
JOB = b"""\
# mine
job: extension
config:
  name: cat
  process:
    - type: sd_trainer
      training_folder: /home/alice/out
      datasets:
        - folder_path: /home/alice/cat
      train: {batch_size: 4}
      model: {name_or_path: some/model, arch: flux}
"""


def test_a_log_is_kept_under_its_hash_with_secrets_masked(tmp_path: Path) -> None:
    raw = f"Running 1 job\nlogin {TOKEN}\nCUDA out of memory. Tried to allocate 2.00 GiB.\n".encode()
    kept = keep(raw, "log", tmp_path / "headroom")
    (file,) = (tmp_path / "headroom").iterdir()
    assert kept.name == f"headroom/{file.name}"
    assert kept.lines == 4
    assert kept.masked_lines == {2: "login hf_masked"}
    assert file.read_bytes() == raw.replace(TOKEN.encode(), b"hf_masked")
    assert was_masked(kept.name)


def test_the_same_text_gets_the_same_name_and_other_text_another(tmp_path: Path) -> None:
    names = [keep(text, "log", tmp_path).name for text in (b"one\n", b"one\n", b"two\n")]
    assert names[0] == names[1] != names[2]
    assert not was_masked(names[0])


def test_a_name_says_nothing_of_what_was_masked(tmp_path: Path) -> None:
    names = {keep(f"/home/{who}/x\n".encode(), "log", tmp_path).name for who in ("alice", "bob")}
    assert len(names) == 1


def test_a_job_keeps_its_text_but_for_home_folders(tmp_path: Path) -> None:
    kept = keep(JOB, "job", tmp_path)
    text = (tmp_path / kept.name.partition("/")[2]).read_bytes()
    assert kept.name.endswith(".masked.yaml")
    assert text == JOB.replace(b"/home/alice", b"/home/user")
    assert sorted(kept.masked_lines) == [7, 9]


def test_a_json_job_is_kept_as_json(tmp_path: Path) -> None:
    raw = b'{"job": "extension", "config": {"name": "x", "process": [{"type": "sd_trainer"}]}}'
    assert keep(raw, "job", tmp_path).name.endswith(".json")


def test_a_log_in_utf_16_is_read_before_it_is_masked(tmp_path: Path) -> None:
    kept = keep(f"login {TOKEN}\r\n显存不足\r\n".encode("utf-16"), "log", tmp_path)
    assert (tmp_path / kept.name.partition("/")[2]).read_bytes() == "login hf_masked\r\n显存不足\r\n".encode()


def test_a_job_that_ai_toolkit_could_not_read_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(JobError) as refused:
        keep(JOB.replace(b"  name: cat", b"  name: [cat"), "job", tmp_path)
    assert refused.value.line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("raw", [b"", b" \n\t"])
def test_nothing_is_refused(raw: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        keep(raw, "log", tmp_path)


@pytest.mark.parametrize("kind", ["log", "job"])
def test_too_much_is_refused_with_the_way_out(kind: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="input folder"):
        keep(b"x" * (LARGEST_BYTES[kind] + 1), kind, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_long_log_is_masked_from_its_first_line_to_its_last(tmp_path: Path) -> None:
    line = b"cat:  50%|#####     | 3/6 [00:01<00:01,  2.10it/s]\n"
    raw = f"{TOKEN}\n".encode() + line * 60_000 + f"{TOKEN}\n".encode()
    kept = keep(raw, "log", tmp_path)
    assert sorted(kept.masked_lines) == [1, 60_002]
    assert TOKEN.encode() not in (tmp_path / kept.name.partition("/")[2]).read_bytes()
