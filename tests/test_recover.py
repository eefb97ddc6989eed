"""From a log to a corrected job in one call, and whether it may be run at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headroom.contracts import Known
from headroom.job import read_job_file
from headroom.recovery import recover

SAMPLES = Path(__file__).resolve().parent.parent / "example_workflows" / "samples"


def test_a_corrected_job_may_be_run_and_advice_without_a_job_may_not() -> None:
    log = (SAMPLES / "train_step_out_of_memory.log").read_bytes()
    with_job = recover(log, read_job_file(SAMPLES / "train_step_out_of_memory.yaml"))
    assert with_job.correction.changes and with_job.safe_to_retry
    advice = recover("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert advice.job is None and advice.correction.changes and not advice.safe_to_retry


def test_the_job_printed_in_the_log_is_used_where_none_is_given() -> None:
    recovery = recover(SAMPLES / "train_step_out_of_memory.log")
    assert recovery.job is not None and recovery.job.origin == "log"
    assert recovery.correction.job is not None and recovery.correction.job.text != recovery.job.text


@pytest.mark.parametrize(
    ("log", "exit_code", "safe"),
    [
        ("hello world", None, False),
        ("", None, False),
        ("", 0, True),
        ("Error running job: Job stopped", 0, True),
        ("DataLoader worker (pid 1) is killed by signal: Bus error.", 1, False),
        ("ModuleNotFoundError: No module named 'einops'", 1, False),
    ],
)
def test_only_what_needs_nothing_else_first_is_safe_to_retry(log: str, exit_code: int | None, safe: bool) -> None:
    assert recover(log, known=Known(exit_code=exit_code)).safe_to_retry is safe
