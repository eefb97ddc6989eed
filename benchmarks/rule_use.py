"""Which rule answered how many of the labelled cases, and which serve exactly one or none.

    python benchmarks/rule_use.py

A rule that one case alone needs is one to look at again; ``rules.yaml`` says of each why it is general.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from headroom.contracts import Known  # noqa: E402
from headroom.diagnosis import diagnose, read_log  # noqa: E402
from headroom.diagnosis.facts import rules  # noqa: E402
from headroom.job import read_job  # noqa: E402


def main() -> None:
    used: Counter[str] = Counter()
    for name in ("public", "real_runs"):
        for line in (ROOT / "tests" / "cases" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            given = json.loads(line)["input"]
            job = read_job(yaml.safe_dump(given["job"])) if given.get("job") else None
            known = Known(given["exit_code"], given["os"], given["gpu_gib"], given["host_ram_gib"])
            used[diagnose(read_log(given["log"]), known, job).rule] += 1
    for rule in rules()["rules"]:
        print(f"{used[rule['id']]:4d}  {rule['id']:<28} {rule['general']}")
    print("\nexactly one case:", ", ".join(rule["id"] for rule in rules()["rules"] if used[rule["id"]] == 1))
    print("no labelled case:", ", ".join(rule["id"] for rule in rules()["rules"] if not used[rule["id"]]))


if __name__ == "__main__":
    main()
