"""Numbers compared and facts weighed: one short log a rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headroom import configs
from headroom.contracts import Diagnosis, Known
from headroom.diagnosis import diagnose, read_log
from headroom.diagnosis.catalogue import catalogue
from headroom.job import read_job
from headroom.report.wording import LANGUAGES, known_key, words

JOB = """job: extension
config:
  name: lora
  process:
    - type: sd_trainer
      train: {batch_size: %d, gradient_checkpointing: true}
      datasets: [{folder_path: data, resolution: [512]}]
      model: {arch: flux, name_or_path: x}
"""


def oom(requested: str, total: str, free: str, more: str = "") -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested}. GPU 0 has a total capacity of {total} "
        f"of which {free} is free. {more}"
    )


def judged(log: str, batch: int | None = None, **known) -> Diagnosis:
    return diagnose(read_log(log), Known(**known), read_job(JOB % batch) if batch else None)


FULL = "Including non-PyTorch memory, this process has 23.20 GiB memory in use. Of the allocated memory 21.87 GiB is allocated by PyTorch, and 0.91 GiB is reserved by PyTorch but unallocated."


def test_what_bitsandbytes_lacks_without_a_gpu_is_the_cause_of_nothing() -> None:
    line = "Failed to load CPU gemm_4bit_forward from kernels-community: No module named 'kernels'. Please make sure you already `pip install kernels` and the kernels >= 0.11.1"
    assert judged(line).cause == judged("loading the model").cause
    assert judged(f"{line}\nOSError: [Errno 28] No space left on device").cause == "disk"


@pytest.mark.parametrize(
    ("log", "cause", "advice"),
    [
        # another process, and a process that is this one under another number
        (oom("48.00 MiB", "47.53 GiB", "43.94 MiB", "Process 1 has 5.68 GiB memory in use. Process 2 has 7.62 GiB memory in use. Including non-PyTorch memory, this process has 34.17 GiB memory in use."), "other_process", "free_gpu"),
        (oom("14.00 MiB", "39.56 GiB", "896.00 KiB", "Process 9 has 39.55 GiB memory in use. Of the allocated memory 37.77 GiB is allocated by PyTorch, and 1.28 GiB is reserved by PyTorch but unallocated."), "vram", "change_job"),
        # a desktop's few MiB are no reason
        (oom("2.00 GiB", "23.64 GiB", "400.00 MiB", "Process 1 has 120.00 MiB memory in use. " + FULL), "vram", "change_job"),
        # larger than any card; more allocated than the card has; a card that others fill unseen
        (oom("30.00 GiB", "23.64 GiB", "23.00 GiB", "Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."), "vram", "change_job"),
        (oom("1.00 GiB", "15.99 GiB", "0 bytes", "Of the allocated memory 30.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."), "spill", "change_job"),
        (oom("4.50 GiB", "15.98 GiB", "1.40 GiB", "Of the allocated memory 1.26 GiB is allocated by PyTorch, and 152.50 MiB is reserved by PyTorch but unallocated."), "other_process", "free_gpu"),
        ("RuntimeError: DataLoader worker (pid 1) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.", "shared_memory", "fix_host"),
        ("OSError: [WinError 1455] Die Auslagerungsdatei ist zu klein", "page_file", "fix_host"),
        ("./run.sh: line 3: 12345 Killed                  python run.py job.yaml", "host_ram", "fix_host"),
        ("RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":995", "vram", "change_job"),
        ("cuBLAS API failed with status 15", "not_memory", "fix_error"),
        ("Cannot access gated repo for url", "not_memory", "fix_error"),
        ("OSError: [Errno 28] No space left on device", "disk", "fix_host"),
        ("Error running job: Job stopped", "interrupted", "none"),
        ("hello", "none", "none"),
    ],
)  # fmt: skip
def test_a_log_is_judged(log: str, cause: str, advice: str) -> None:
    diagnosis = judged(log)
    assert (diagnosis.cause, diagnosis.advice) == (cause, advice)


ZERO_FREE = "Generating baseline samples before training\n" + oom(
    "2.00 MiB",
    "23.64 GiB",
    "0 bytes",
    "Of the allocated memory 4.00 GiB is allocated by PyTorch, and 0.10 GiB is reserved by PyTorch but unallocated.",
)


def test_it_is_the_worker_only_when_every_condition_of_the_guide_holds() -> None:
    assert judged(ZERO_FREE, batch=1).advice == "new_worker"
    assert judged(ZERO_FREE, batch=4).advice != "new_worker", "a batch of four is not conservative"
    in_training = ZERO_FREE.replace(
        "Generating baseline samples before training",
        "# Running job: lora\nlora:   7%|#         | 2/30 [00:01<00:20,  1.00it/s]",
    )
    assert judged(in_training, batch=1).advice != "new_worker", "training had begun"
    full = "Generating baseline samples before training\n" + oom("2.00 MiB", "23.64 GiB", "0 bytes", FULL)
    assert judged(full, batch=1).advice == "change_job", "a card full of this very job is no dirty worker"
    cublas = (
        "Loading transformer\nRuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    )
    assert judged(cublas, batch=1).advice == "new_worker"
    assert judged(cublas, batch=4).advice == "change_job"


def test_a_small_request_with_the_card_half_free_is_the_page_file_on_windows_only() -> None:
    log = oom(
        "512.00 MiB",
        "12.00 GiB",
        "8.57 GiB",
        "Of the allocated memory 1.33 GiB is allocated by PyTorch, and 0.03 GiB is reserved by PyTorch but unallocated.",
    )
    assert judged(log, system="windows").cause == "page_file"
    assert judged(log, system="linux").cause != "page_file"


@pytest.mark.parametrize(
    ("code", "cause"), [(137, "host_ram"), (-9, "host_ram"), (0, "none"), (130, "interrupted"), (1, "unknown")]
)
def test_an_exit_code_speaks_where_the_log_is_silent(code: int, cause: str) -> None:
    assert (
        judged("# Running job: lora\nlora:   7%|#         | 2/30 [00:01<00:20,  1.00it/s]", exit_code=code).cause
        == cause
    )


def test_a_finished_run_that_skipped_batches_says_so() -> None:
    log = (
        "# Running job: lora\nlora:  50%|#####     | 15/30 [00:01<00:20,  1.00it/s, lr: 1.0e-04 loss: 1.0e+00]\n"
        "# OOM during training step, skipping batch 1/3 #\n"
        "lora: 100%|##########| 30/30 [00:01<00:20,  1.00it/s, lr: 1.0e-04 loss: 1.0e+00]\nSaved checkpoint to lora.safetensors\n"
    )
    diagnosis = judged(log, exit_code=0)
    assert diagnosis.memory_failure and diagnosis.failure_class == "D" and diagnosis.steps.skipped_batches == 1
    assert "warning.largest_bucket_may_never_train" in [each.key for each in diagnosis.warnings]


def test_an_error_that_hides_an_out_of_memory_is_seen_through() -> None:
    log = "# OOM during training step, skipping batch 3/3 #\n\nError running job: division by zero\n"
    assert judged(log, exit_code=1).cause == "vram"
    assert judged("Error running job: division by zero\n", exit_code=1).cause == "not_memory"


def test_memory_is_never_said_without_a_line_or_an_exit_code() -> None:
    for log in (
        "",
        "Loading transformer\n",
        "Traceback (most recent call last):\n",
        "loss is nan",
        "CUDA error: unknown error",
    ):
        assert not judged(log).memory_failure


def test_every_rule_message_and_stage_has_words_in_both_languages() -> None:
    data = configs.load("failures/rules")
    keys = {f"diagnosis.rule.{rule['id']}" for rule in data["rules"]} | {
        f"advice.{rule['advice']}" for rule in data["rules"] if rule["advice"] not in ("fix_host",)
    }
    keys |= {f"means.{message.says}" for message in catalogue().messages} | {
        f"cause.{rule['cause']}" for rule in data["rules"]
    }
    keys |= {f"advice.fix_host.{rule['cause']}" for rule in data["rules"] if rule["advice"] == "fix_host"}
    for key in keys:
        assert known_key(key), key
    english, chinese = (Path(__file__).parent.parent / "locales" / lang / "report.json" for lang in LANGUAGES)
    import json

    en, zh = (json.loads(path.read_text(encoding="utf-8")) for path in (english, chinese))
    assert en.keys() == zh.keys()
    for key in en:
        assert set(re.findall(r"{(\w+)", en[key])) == set(re.findall(r"{(\w+)", zh[key])), key
    assert words(judged("hello").summary[0], "zh")


def test_every_fact_a_rule_asks_for_is_one_that_can_hold() -> None:
    data = configs.load("failures/rules")
    said = {message.says for message in catalogue().messages}
    source = (Path(__file__).parent.parent / "headroom" / "diagnosis" / "facts.py").read_text(encoding="utf-8")
    for rule in data["rules"]:
        for condition in rule["when"]:
            name = condition.removeprefix("!")
            worked_out = f'"{name}"' in source or name == "windows" or name.startswith("in_")
            known = name in said or worked_out or name.removeprefix("exit_") in data["exit_codes"]
            assert known, (rule["id"], name)
        assert rule["general"]
