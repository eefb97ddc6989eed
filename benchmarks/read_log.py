"""How fast a log is read, as a ratio against ``grep -cF`` over the same file with the same texts.

    python benchmarks/read_log.py [--gib 1] [--keep FILE]

Makes a log of progress bars with AI Toolkit's skip banner at 10, 50 and 90 %, reads it in a process of its own, and
prints the seconds, the ratio to grep and the peak memory. Exits 1 when a banner was missed, when memory passed 100 MB
or when the reader is more than ten times slower than grep.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READER = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from headroom.diagnosis import read_log
start = time.perf_counter()
reading = read_log(Path(sys.argv[1]))
seconds = time.perf_counter() - start
kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": seconds, "mb": kib / 1024 * 1.048576, "bytes": reading.size,
                  "banners": reading.counts.get("aitk_skipped_batch", 0), "lines": reading.lines}))
"""


def write_log(path: Path, size: int) -> None:
    """Bars repainted with carriage returns, with banners at 10, 50 and 90 % of the size."""
    banner = "\n\n{0}\n# OOM during training step, skipping batch 1/3 #\n{0}\n\n".format("#" * 48)
    bars, total = [], 100_000
    for step in range(1000):
        done = "█" * (step // 100)
        bars.append(
            f"\rmy_lora:  {step * 100 // total:2d}%|{done:<10}| {step}/{total} "
            f"[{step // 60:02d}:{step % 60:02d}<05:32:10,  1.30s/it, lr: 1.0e-04 loss: {0.3 + step / 9999:.3e}]"
        )
    block = "".join(bars).encode()
    marks = [int(size * share) for share in (0.1, 0.5, 0.9)]
    with path.open("wb") as file:
        file.write(b"my_lora:   0%|          | 0/100000 [00:00<?, ?it/s]")
        while file.tell() < size:
            if marks and file.tell() >= marks[0]:
                file.write(banner.encode())
                marks.pop(0)
            file.write(block)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from headroom.diagnosis.catalogue import catalogue

    with tempfile.TemporaryDirectory() as folder:
        log = options.keep or Path(folder, "bars.log")
        if not log.exists():
            write_log(log, int(options.gib * 2**30))
        texts = Path(folder, "texts")
        texts.write_text("\n".join(sorted({text for each in catalogue().messages for text in each.find})))
        size = log.stat().st_size
        subprocess.run(["cat", str(log)], stdout=subprocess.DEVNULL, check=True)  # both read from a warm cache
        start = time.perf_counter()
        subprocess.run(["grep", "-cF", "-f", str(texts), str(log)], stdout=subprocess.DEVNULL, check=False)
        grep = time.perf_counter() - start
        run = subprocess.run([sys.executable, "-c", READER, str(log), str(ROOT)], capture_output=True, check=True)
        read = json.loads(run.stdout)
    ratio = read["seconds"] / grep
    print(f"{size / 2**30:.2f} GiB of bars, {read['lines']} lines")
    print(f"grep -cF   {grep:7.2f} s  {size / grep / 2**20:8.0f} MiB/s")
    print(f"headroom   {read['seconds']:7.2f} s  {size / read['seconds'] / 2**20:8.0f} MiB/s  {ratio:.1f} times grep")
    print(f"peak memory {read['mb']:.0f} MB, bytes read {read['bytes']} of {size}, banners {read['banners']} of 3")
    return 0 if read["banners"] == 3 and read["bytes"] == size and read["mb"] < 100 and ratio <= 10 else 1


if __name__ == "__main__":
    sys.exit(main())
