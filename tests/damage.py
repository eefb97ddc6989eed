"""Ways in which a log is damaged on its way to us. Each keeps what the log says."""

from __future__ import annotations

import random
import re
from collections.abc import Callable


def crlf(log: str) -> bytes:
    return log.replace("\r\n", "\n").replace("\n", "\r\n").encode()


def byte_order_mark(log: str) -> bytes:
    return b"\xef\xbb\xbf" + log.encode()


def utf16_with_mark(log: str) -> bytes:
    return b"\xff\xfe" + log.encode("utf-16-le")


def utf16_without_mark(log: str) -> bytes:
    return log.encode("utf-16-le")


def gb18030(log: str) -> bytes:
    return ("任务日志：训练开始\n" + log).encode("gb18030")


def broken_bytes(log: str) -> bytes:
    rng = random.Random(7)
    data = log.encode()
    spots = [i for i, byte in enumerate(data) if byte == 0x0A]
    for spot in sorted(rng.sample(spots, min(5, len(spots))), reverse=True):
        data = data[:spot] + b"\xff\xfe\x80" + data[spot:]
    return data


def nul_bytes(log: str) -> bytes:
    return b"\0\0" + log.encode().replace(b"\n", b"\n\0")


def colours(log: str) -> bytes:
    return "\n".join(f"\x1b[31m{line}\x1b[0m" for line in log.split("\n")).encode()


def rank_prefix(log: str) -> bytes:
    return "\n".join(f"[rank0]: {line}" for line in log.split("\n")).encode()


def time_stamps(log: str) -> bytes:
    return "\n".join(f"2026-08-21T13:31:{i % 60:02d}.123456Z {line}" for i, line in enumerate(log.split("\n"))).encode()


def doubled(log: str) -> bytes:
    return "\n".join(f"{line}\n{line}" for line in log.split("\n")).encode()


def bars_glued(log: str) -> bytes:
    """A page that dropped the carriage returns."""
    return log.replace("\r", "").encode()


def bars_on_lines(log: str) -> bytes:
    return log.replace("\r", "\n").encode()


def wrapped_anywhere(log: str) -> bytes:
    """A terminal of 100 columns copied as it stood; the configuration above the first marker is left alone."""
    head, mark, tail = log.partition("Running  1 process")
    lines = []
    for line in tail.split("\n"):
        lines += [line[i : i + 100] for i in range(0, len(line), 100)] or [""]
    return (head + mark + "\n".join(lines)).encode()


def wrapped_at_words(log: str) -> bytes:
    head, mark, tail = log.partition("Running  1 process")
    return (head + mark + re.sub(r"([^\n]{60,90}) ", r"\1\n", tail)).encode()


DAMAGES: dict[str, Callable[[str], bytes]] = {
    function.__name__: function
    for function in (
        crlf,
        byte_order_mark,
        utf16_with_mark,
        utf16_without_mark,
        gb18030,
        broken_bytes,
        nul_bytes,
        colours,
        rank_prefix,
        time_stamps,
        doubled,
        bars_glued,
        bars_on_lines,
        wrapped_anywhere,
        wrapped_at_words,
    )
}
