"""Random damage to logs and jobs: what a hurried person, a broken pipe or a hostile sender may hand in."""

from __future__ import annotations

import random

_SNIPPETS = (
    b"\r", b"\n", b"\r\n", b"\0", b"\xff", b"\x1b[31m", b"%|", b"]", b"[", b"{", b"}", b": ", b"- ", b"&a ", b"*a", b"<<: ",
    b'"', b"'", b"#", b"\t", b"GiB", b"17179869184.00 GiB", b"0 bytes is free", b"Process 1 has 3.00 GiB memory in use. ",
    b"CUDA out of memory. Tried to allocate 2.00 GiB", b"Traceback (most recent call last):\n", b'  File "a.py", line 1, in save\n',
    b"# OOM during training step, skipping batch 1/3 #\n", b"Killed\n", b"1e-4", b"null", b"true", b"!!python/object:os.system",
    b"999999999999999999999999", b"NaN", b"\xe9\xa1\xb5\xe9\x9d\xa2", b"\xa3\xa8", b"100%|" + b"#" * 50 + b"| 9/9 [00:01<00:00, 1.00it/s]",
)  # fmt: skip


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One to six cuts, swaps, repeats, insertions or flipped bytes."""
    for _ in range(rng.randint(1, 6)):
        size = len(data)
        at, to = sorted((rng.randint(0, size), rng.randint(0, size)))
        kind = rng.randrange(7)
        if kind == 0:
            data = data[:at] + data[to:] if to - at < size // 2 else data[at:to]
        elif kind == 1:
            data = data[:at] + rng.choice(_SNIPPETS) + data[at:]
        elif kind == 2 and size:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == 3:
            data = data[:at] + data[at : min(to, at + 2000)] * rng.randint(2, 4) + data[at:]
        elif kind == 4:
            lines = data.split(b"\n")
            first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            data = b"\n".join(lines)
        elif kind == 5:
            data = data[at:] if rng.random() < 0.5 else data[:to]
        else:
            data = data.replace(rng.choice((b" ", b"\n", b".", b"0")), rng.choice((b"", b"  ", b"\n", b"\r\n")), 50)
    return data[:400_000]
