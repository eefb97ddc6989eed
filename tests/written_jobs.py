"""Random jobs as people and programs write them: every YAML style, comments anywhere, anchors, merge keys, CRLF."""

from __future__ import annotations

import random
from collections.abc import Sequence

KEYS = (
    *("train", "model", "sample", "datasets", "batch_size", "resolution", "width", "ema_config", "use_ema", "lr"),
    *("x-y", "键", "a", "b", "dtype", "quantize", "9", "on", "~", "a_rather_long_key_name"),
)
PLAIN = (
    *(
        "1",
        "0",
        "4",
        "1e-4",
        "0.5",
        "true",
        "false",
        "yes",
        "off",
        "null",
        "~",
        "bf16",
        "hello world",
        "cuda:0",
        "C:/x",
    ),
    *("512", "[name]", "${HF}", "-1", ".inf", "0x10", "中文 字", "x#y", "a:b", "12:30", "with-dash", "!!int '7'"),
)
QUOTED = (
    *("'it''s'", '"a \\"q\\" \\u00e9"', "'512'", '"true"', "''", '""', "'# no comment'", '"a: b"', "'[1, 2]'"),
    *('"\U0001f600 {x}"', "'two\n{indent}lines'", '"two\n\n{indent}lines"', '"joined\\\n{indent}line"'),
)
COMMENTS = ("# note", "#", "# 注释\t与制表符", "# a: b", "#no space # two")
BLOCK_LINES = ("text: x", "- item", "# no comment", "more  words")


class Writer:
    """Writes one job, deciding with ``rng``."""

    def __init__(self, rng: random.Random, anchors: bool = True) -> None:
        self.rng = rng
        self.anchors = anchors
        self.count = 0
        self.named: list[str] = []  # anchors that an alias may use
        self.named_maps: list[str] = []
        self.open: list[tuple[str, bool]] = []  # anchors of values that are not finished

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def one(self, choices: Sequence[str]) -> str:
        return self.rng.choice(choices)

    def comment(self, share: float = 0.2) -> str:
        return self.one(("  ", " ")) + self.one(COMMENTS) if self.chance(share) else ""

    def key(self, used: set[str]) -> str:
        key = self.one([key for key in KEYS if key not in used or self.chance(0.03)] or KEYS)
        used.add(key)
        return self.one((key,) * 10 + (f'"{key}"', f"'{key}'"))

    def anchor(self, mapping: bool = False) -> str:
        if not (self.anchors and self.chance(0.15)):
            return ""
        self.count += 1
        self.open.append((f"n{self.count}", mapping))
        return f"&n{self.count} "

    def scalar(self, indent: int, flow: bool = False) -> str:
        if self.named and self.chance(0.15):
            return "*" + self.one(self.named)
        if self.chance(0.3):
            return self.one(QUOTED).replace("{indent}", " " * (indent + 2))
        text = self.one(PLAIN)
        return "5" if flow and any(sign in text for sign in "[]{},") else text

    def flow(self, indent: int, depth: int) -> str:
        """A list or a mapping in brackets, on one line or several."""
        lines = depth == 2 and self.chance(0.25)
        mapping = self.chance(0.5)
        used: set[str] = set()
        items = []
        for _ in range(self.rng.randint(0, 4)):
            inside = self.flow(indent + 2, depth - 1) if depth and self.chance(0.25) else self.scalar(indent + 2, True)
            empty = mapping and self.chance(0.05)
            items.append((f"{self.key(used)}: " if mapping else "") + ("" if empty else inside))
        body = (",\n" + " " * (indent + 2) if lines else self.one((", ", ",", " , "))).join(items)
        body += "," if items and self.chance(0.1) else ""
        if lines and items:
            body = f"\n{' ' * (indent + 2)}{body}\n{' ' * indent}"
            body = body.replace(",\n", ", # c\n", 1) if self.chance(0.3) else body
        space = self.one(("", "", "", " "))
        return f"{'{' if mapping else '['}{space}{body}{space}{'}' if mapping else ']'}"

    def value(self, indent: int, depth: int) -> list[str]:
        """The text behind a key or a dash, and the lines below it. An anchor is usable once its value is finished."""
        outer, self.open = self.open, []
        written = self._value(indent, depth)
        self.named += [name for name, _ in self.open]
        self.named_maps += [name for name, mapping in self.open if mapping]
        self.open = outer
        return written

    def _value(self, indent: int, depth: int) -> list[str]:
        kind = self.rng.random() if depth else 0.1
        if kind < 0.04:
            return [self.comment()]
        if kind < 0.45:
            anchor, text = self.anchor(), self.scalar(indent)
            if text.startswith("*"):
                anchor = ""
                self.open = []
            return [f" {anchor}{text}{self.comment()}"]
        if kind < 0.6:
            return [f" {self.anchor()}{self.flow(indent + 2, 2)}{self.comment()}"]
        if kind < 0.68:
            head = f" {self.anchor()}{self.one(('|', '>', '|-', '>-', '|+'))}{self.comment(0.1)}"
            lines = [" " * (indent + 2) + self.one(BLOCK_LINES) for _ in range(self.rng.randint(1, 3))]
            return [head, *lines, *([""] if self.chance(0.2) else [])]
        below = indent + self.rng.choice((2, 2, 2, 4))
        mapping = kind < 0.85
        anchor = self.anchor(mapping).rstrip()
        head = (f" {anchor}" if anchor else "") + self.comment()
        return [head, *(self.mapping(below, depth - 1) if mapping else self.sequence(below, depth - 1))]

    def mapping(self, indent: int, depth: int) -> list[str]:
        used: set[str] = set()
        lines: list[str] = []
        for _ in range(self.rng.randint(1, 4)):
            if self.chance(0.1):
                lines.append(" " * self.rng.choice((indent, indent, 0)) + self.one(COMMENTS))
            if self.chance(0.05):
                lines.append("")
            if self.named_maps and "<<" not in used and self.chance(0.15):
                used.add("<<")
                names = self.rng.sample(self.named_maps, min(len(self.named_maps), self.rng.choice((1, 1, 2))))
                merged = ", ".join(f"*{name}" for name in names)
                lines.append(f"{' ' * indent}<<: {merged if len(names) == 1 else f'[{merged}]'}{self.comment()}")
                continue
            key = self.key(used)
            first, *rest = self.value(indent, depth)
            lines += [f"{' ' * indent}{key}:{first}", *rest]
        return lines

    def sequence(self, indent: int, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.rng.randint(1, 4)):
            if self.chance(0.1):
                lines.append(" " * indent + self.one(COMMENTS))
            if depth and self.chance(0.4):
                inside = self.mapping(indent + 2, depth - 1)
                while inside and inside[0].strip()[:1] in ("", "#"):
                    inside.pop(0)
                if inside:
                    inside[0] = f"{' ' * indent}- {inside[0][indent + 2 :]}"
                    lines += inside
                    continue
            first, *rest = self.value(indent, depth if self.chance(0.3) else 0)
            lines += [f"{' ' * indent}-{first}", *rest]
        return lines

    def job(self) -> str:
        lines = ["# top"] if self.chance(0.2) else []
        lines += ["---"] if self.chance(0.2) else []
        if self.anchors and self.chance(0.4):
            first, *rest = self.value(0, 2)
            lines += [f"shared:{first}", *rest]
        indent = self.rng.choice((2, 2, 4))
        lines += ["job: extension", "config:", f"{' ' * indent}name: x{self.comment()}"]
        if self.chance(0.3):
            first, *rest = self.value(indent, 2)
            lines += [f"{' ' * indent}extra:{first}", *rest]
        lines.append(f"{' ' * indent}process:{self.comment()}")
        indent += self.rng.choice((0, 2))
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            lines.append(f"{' ' * indent}- type: rescale_lora{self.comment()}")
            lines += self.mapping(indent + 2, 4)
        if self.chance(0.3):
            first, *rest = self.value(0, 1)
            lines += [f"meta:{first}", *rest]
        text = "\n".join([*lines, *(["# end"] if self.chance(0.1) else [])]) + self.one(("\n",) * 6 + ("",))
        text = ("\ufeff" if self.chance(0.05) else "") + text
        return text.replace("\n", "\r\n") if self.chance(0.15) else text


def written_job(seed: int, anchors: bool = True) -> str:
    """A job's text; the same for the same seed."""
    return Writer(random.Random(seed), anchors).job()
