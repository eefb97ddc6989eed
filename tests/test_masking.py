"""Secrets and home folders leave a pasted text; everything that a diagnosis or a job needs stays."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headroom.report.masking import masked, masked_chunks

HEX40 = "0123456789abcdef0123456789abcdef01234567"
SECRETS = {
    "hf_" + "aB3" * 11: "hf_masked",
    "sk-" + "proj-Zx9" * 4: "sk-masked",
    "ghp_" + "Q1" * 18: "ghp_masked",
    "github_pat_" + "Q1_" * 12: "ghp_masked",
    "glpat-" + "x" * 20: "glpat-masked",
    "AKIA" + "Z" * 16: "AKIAmasked",
    "AIza" + "k" * 35: "AIzamasked",
    "r8_" + "m" * 30: "r8_masked",
    "xoxb-" + "1" * 20: "xoxmasked",
    "eyJhbGciOiJIUzI1NiJ9." + "e" * 20 + "." + "s" * 20: "masked",
}
IN_PLACE = [
    ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer masked"),
    ("wandb: Paste an API key: " + HEX40, "wandb: Paste an API key: masked"),
    ("WANDB_API_KEY=" + HEX40, "WANDB_API_KEY=masked"),
    ('"hf_token": "abcdefgh12345678"', '"hf_token": "masked"'),
    ("password = 'correct-horse'", "password = 'masked'"),
    ("https://alice:hunter22@example.org/x", "https://masked@example.org/x"),
    ("https://cdn.example/x?X-Amz-Signature=abcdef012345&v=1", "https://cdn.example/x?X-Amz-Signature=masked&v=1"),
    ("https://civit.example/m?token=abcdef012345", "https://civit.example/m?token=masked"),
    ("alice@gpu-box:~/ai-toolkit$ python run.py", "user@machine:~/ai-toolkit$ python run.py"),
    ('File "/home/alice/ai-toolkit/run.py", line 90', 'File "/home/user/ai-toolkit/run.py", line 90'),
    ("folder_path: /Users/alice/data", "folder_path: /Users/user/data"),
    ("cd /home/alice", "cd /home/user"),
    (r"D: C:\Users\Alice Smith\data\cat", r"D: C:\Users\user\data\cat"),
    (r'"folder": "C:\\Users\\alice\\data"', r'"folder": "C:\\Users\\user\\data"'),
    ("C:/Users/alice/data", "C:/Users/user/data"),
    ("/mnt/c/Users/alice/data", "/mnt/c/Users/user/data"),
]
UNTOUCHED = [
    "CUDA out of memory. Tried to allocate 3.10 GiB. GPU 0 has a total capacity of 23.64 GiB of which 8 MiB is free.",
    "hf_token: ${HF_TOKEN}",
    "max_token_length: 512",
    "name_or_path: black-forest-labs/FLUX.1-dev",
    "hf_repo_id: someone/hf_lora",
    "Loading tokenizer: 100%|##########| 3/3",
    "trigger_word: sks, keyframes: 41",
    "/workspace/home/x and https://example.org/home/alice",
    "epsilon: 1e-8  # risk-free",
    "ok:  50%|#####     | 3/6 [00:01<00:01,  2.10it/s]",
    "cache_text_embeddings: true",
    "commit 0123456789abcdef0123456789abcdef01234567",
    "显存不足：Tried to allocate 2.00 GiB",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_token_is_replaced_wherever_it_stands(secret: str) -> None:
    for line in ("token {}", "huggingface-cli login --token {}", '"a": "{}",', "x={}", "{}", "显存 {} 不足"):
        assert masked(line.format(secret)) == line.format(SECRETS[secret])


@pytest.mark.parametrize(("line", "expected"), IN_PLACE)
def test_only_the_secret_part_of_a_line_changes(line: str, expected: str) -> None:
    assert masked(line) == expected
    assert masked(f"before\n{line}\nafter\n") == f"before\n{expected}\nafter\n"


@pytest.mark.parametrize("line", UNTOUCHED)
def test_what_a_diagnosis_or_a_job_needs_stays(line: str) -> None:
    assert masked(line) == line


def test_masking_twice_changes_nothing_more() -> None:
    text = "\n".join([*SECRETS, *(line for line, _ in IN_PLACE)])
    assert masked(masked(text)) == masked(text)


def test_a_masked_job_is_still_the_same_yaml_but_for_its_secrets() -> None:
    job = "\n".join(
        [
            "config:",
            "  hf_token: " + "hf_" + "aB3" * 11,
            "  env: {WANDB_API_KEY: " + HEX40 + ', note: "sk-' + "a" * 20 + '"}',
            "  folder_path: /home/alice/data  # mine",
            "  batch_size: 4",
        ]
    )
    assert yaml.safe_load(masked(job)) == {
        "config": {
            "hf_token": "hf_masked",
            "env": {"WANDB_API_KEY": "masked", "note": "sk-masked"},
            "folder_path": "/home/user/data",
            "batch_size": 4,
        }
    }


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_lines_are_neither_added_nor_lost(text: str) -> None:
    assert masked(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ-",
        "a_",
        "://@",
        "?key=",
        "api_key",
        "/home/",
        "key\n",
        "bearer ",
        "wandb ",
        "c:\\users\\",
        "x@y:~",
        "/home/a\n",
    ],
)
def test_no_megabyte_of_anything_takes_more_than_three_seconds(piece: str) -> None:
    begun = time.perf_counter()
    masked(piece * (1_000_000 // len(piece)))
    assert time.perf_counter() - begun < 3


def test_ordinary_log_lines_pass_at_five_megabytes_a_second_at_least() -> None:
    chunk = b"ok:  50%|#####     | 3/6 [00:01<00:01,  2.10it/s, lr: 1.0e-04 loss: 3.2e-01]\r" * 13_000
    begun = time.perf_counter()
    size = sum(len(piece) for piece in masked_chunks([chunk] * 10))
    assert size / (time.perf_counter() - begun) > 5e6
