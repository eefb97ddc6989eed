"""Thousands of damaged logs and jobs: an answer or one clear error each time, quickly, and no number out of thin air.

``python -m pytest ... --soak`` runs a hundred thousand; otherwise a few hundred stand guard.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
import yaml
from mutations import mutated
from test_public_failures import assert_numbers_stand

from headroom.contracts import Known
from headroom.job import JobError, read_job
from headroom.recovery import recover
from headroom.report.report import as_json, report

CASES = Path(__file__).parent / "cases"
HANG_SECONDS = 10  # the product's bar is one second, measured by the soak; a loaded machine must not fail the suite
FEW, MANY = 400, 100_000


def _pairs() -> list[tuple[bytes, bytes, Known]]:
    pairs = []
    for name in ("public", "real_runs"):
        for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            given = json.loads(line)["input"]
            job = yaml.safe_dump(given["job"], sort_keys=False) if given.get("job") else "job: extension\n"
            known = Known(given["exit_code"], given["os"], given["gpu_gib"], given["host_ram_gib"])
            pairs.append((given["log"].encode("utf-8", "surrogatepass"), job.encode(), known))
    return pairs


def _one(pairs: list[tuple[bytes, bytes, Known]], seed: int) -> float:
    rng = random.Random(seed)
    log, text, known = rng.choice(pairs)
    log, text = mutated(log, rng), mutated(text, rng) if rng.random() < 0.7 else text
    start = time.perf_counter()
    try:
        job = read_job(text.decode("utf-8", "replace"))
    except JobError as error:
        assert error.sentence.key
        job = None
    recovery = recover(log, job, known, rng.choice(("next", "safe")))
    json.dumps(as_json(recovery, "en"), default=str)
    assert report(recovery, "zh")
    took = time.perf_counter() - start
    assert_numbers_stand(recovery.diagnosis, f"seed {seed}")
    return took


def test_mutations_get_an_answer(request: pytest.FixtureRequest) -> None:
    count = MANY if request.config.getoption("--soak", default=False) else FEW
    pairs = _pairs()
    times = sorted(_one(pairs, seed) for seed in range(count))
    print(f"{count} mutations, slowest {times[-1]:.3f} s, median {times[len(times) // 2] * 1000:.1f} ms")
    assert times[-1] < HANG_SECONDS
