"""Reading a log: whatever happened to it on its way, what it says is found, with the right lines and numbers."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path

import pytest
from damage import DAMAGES

from headroom.contracts import Known
from headroom.diagnosis import diagnose, read_log
from headroom.diagnosis.sizes import read_sizes

CASES = Path(__file__).parent / "cases" / "real_runs.jsonl"
RUNS = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
# Bars cut in two lose their count; a swallowed error that is wrapped stands too far from the line that swallowed it.
LOSES_STEPS = {"wrapped_anywhere", "wrapped_at_words"}
CUTS_NUMBERS = {"wrapped_anywhere"}
LOSES_THE_SWALLOWING = ("raw-save_optimizer", LOSES_STEPS)

BANNER = "################################################\n# OOM during training step, skipping batch {}/3 #\n################################################\n"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 23.64 GiB "
    "of which 419.84 MiB is free. Including non-PyTorch memory, this process has 23.20 GiB memory in use. Of the "
    "allocated memory 21.87 GiB is allocated by PyTorch, and 931.84 MiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_log_gives_the_answer_of_the_sound_one(damage) -> None:
    for case in RUNS:
        name, given = case["id"], case["input"]
        if name == LOSES_THE_SWALLOWING[0] and damage.__name__ in LOSES_THE_SWALLOWING[1]:
            continue
        known = Known(given["exit_code"], given["os"], given["gpu_gib"])
        sound, damaged = (diagnose(read_log(log), known) for log in (given["log"], damage(given["log"])))
        for field in ("memory_failure", "cause", "stage", "advice"):
            assert getattr(sound, field) == getattr(damaged, field), (name, field)
        numbers, read = asdict(sound.numbers), asdict(damaged.numbers)
        if damage.__name__ in CUTS_NUMBERS:  # a number in two pieces is not read, and never read wrong
            numbers = {field: value for field, value in numbers.items() if read[field] is not None}
            read = {field: value for field, value in read.items() if value is not None}
        assert numbers == read, name
        if damage.__name__ not in LOSES_STEPS:
            assert sound.steps == damaged.steps, name


def test_lines_are_counted_across_chunks() -> None:
    rng = random.Random(1)
    filler = ["x" * rng.randint(0, 300) for _ in range(30_000)]  # several chunks of 1 MiB
    wanted = {}
    for number in (3, 9_000, 29_990):
        filler[number] = OOM
        wanted[number + 1] = OOM
    reading = read_log("\n".join(filler))
    assert [f.line for f in reading.findings if f.message == "torch_out_of_memory"] == list(wanted)
    assert reading.lines == len(filler)


def test_a_long_run_of_bars_keeps_what_lies_between_them() -> None:
    bars = "".join(
        f"\rlora:  10%|█         | {i}/9999 [00:01<01:00,  1.00it/s, lr: 1.0e-04 loss: 1.0e+00]" for i in range(9000)
    )
    log = f"# Running job: lora\n{bars}\n{BANNER.format(1)}{bars}\n{BANNER.format(1)}{bars}"
    reading = read_log(log)
    assert reading.counts["aitk_skipped_batch"] == 2
    assert diagnose(reading).steps.done == 8999


def test_only_the_bar_with_the_jobs_name_is_training() -> None:
    log = "# Running job: lora\nLoading weights:  50%|█████     | 7/14 [00:01<00:01,  1.00it/s]\nlora:   0%|          | 2/30 [00:01<00:20,  1.00it/s]"
    steps = diagnose(read_log(log)).steps
    assert (steps.done, steps.total) == (2, 30)


def test_a_doubled_stderr_counts_once_and_three_skips_count_three() -> None:
    bar = "lora:  10%|█         | {}/30 [00:01<00:20,  1.00it/s]\n"
    twice = "".join(line + line for line in BANNER.format(1).splitlines(keepends=True))
    assert diagnose(read_log("# Running job: lora\n" + twice)).steps.skipped_batches == 1
    thrice = "".join(bar.format(i) + BANNER.format(1) for i in range(3))
    assert diagnose(read_log("# Running job: lora\n" + thrice)).steps.skipped_batches == 3


def test_a_folder_of_the_ui_is_its_log(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(OOM, encoding="utf-8")
    assert read_log(tmp_path).findings
    with pytest.raises(FileNotFoundError):
        read_log(tmp_path.parent / "nothing_here")


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        (
            "Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total capacity; 22.00 GiB already allocated; 0 bytes free; 22.5 GiB reserved in total by PyTorch)",
            {
                "requested_gib": 20 / 1024,
                "total_gib": 23.69,
                "allocated_gib": 22.0,
                "free_gib": 0.0,
                "reserved_gib": 22.5,
            },
        ),
        (
            "MPS backend out of memory (MPS allocated: 9.05 GB, other allocations: 8.11 GB, max allowed: 18.13 GB). Tried to allocate 1.50 GB on private pool.",
            {"requested_gib": 1.5, "allocated_gib": 9.05, "total_gib": 18.13},
        ),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 6442450944 bytes.", {"requested_gib": 6.0}),
        ("of which 17179869183.96 GiB is free", {}),
        ("12.84 Gi", {}),
    ],
)
def test_sizes_are_read_in_gib(sentence: str, numbers: dict[str, float]) -> None:
    got, _ = read_sizes(sentence)
    assert {name: values[0] for name, values in got.items()} == pytest.approx(numbers)


def test_a_sentence_wrapped_inside_a_unit_is_read() -> None:
    log = "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 14.76 GiB total capacity; 12.84 Gi\nB already allocated; 401.75 MiB free; 13.33 GiB reserved in total by PyTorch)"
    numbers = diagnose(read_log(log)).numbers
    assert (numbers.allocated_gib, numbers.reserved_gib) == (12.84, 13.33)


def test_an_empty_log_is_unknown_and_not_a_crash() -> None:
    for log in ("", "\n\n", "\0\0\0", b"\xff\xfe"):
        assert diagnose(read_log(log)).cause in ("unknown", "none")
