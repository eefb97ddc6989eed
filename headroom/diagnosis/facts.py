"""What the evidence amounts to: messages told apart, numbers compared, the job and the exit code weighed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from .. import configs
from ..contracts import Job, Known, Numbers
from ..job import settings
from .findings import Finding, LogReading
from .timeline import Place, Timeline


@cache
def rules() -> dict[str, Any]:
    """``configs/failures/rules.yaml``."""
    return configs.load("failures/rules")


@dataclass(frozen=True)
class Facts:
    """Names that hold (``rules.yaml`` asks for them), the findings that count, and where the failure fell."""

    names: frozenset[str]
    live: tuple[Finding, ...]
    swallowed: tuple[Finding, ...]
    fatal: Finding | None
    place: Place
    measured: Finding | None  # the sentence that the numbers come from
    numbers: Numbers
    named_processes: int = 0

    def holds(self, conditions: list[str]) -> bool:
        return all((each.removeprefix("!") in self.names) != each.startswith("!") for each in conditions)


def _split_swallowed(reading: LogReading) -> tuple[list[Finding], list[Finding]]:
    """Findings that count, and those of an error that the program says it survived."""
    within, swallowing = rules()["swallowed_within"], set(rules()["swallowing"])
    memory = set(rules()["memory"]) | {"some_error"}
    survived = [f.line for f in reading.findings if f.says in swallowing]
    fatal_lines = {f.line for f in reading.findings if f.says == "job_error"}
    live: list[Finding] = []
    swallowed: list[Finding] = []
    for finding in reading.findings:
        near = any(abs(finding.line - line) <= within for line in survived)
        is_swallowed = near and finding.says in memory and finding.line not in fatal_lines
        (swallowed if is_swallowed else live).append(finding)
    return live, swallowed


def _fatal(live: list[Finding]) -> Finding | None:
    """The error that ended the run, as AI Toolkit announces it; its most telling reading comes first."""
    announced = [f for f in live if f.says == "job_error"]
    if not announced:
        return None
    same_line = [f for f in live if f.line == announced[-1].line and f.says not in ("job_error", "some_error")]
    telling = rules()["memory"] + ["hides_out_of_memory", "stopped", "bad_alloc"] + rules()["other"]
    return min(same_line, key=lambda f: telling.index(f.says) if f.says in telling else 99, default=announced[-1])


def _one(sizes: dict[str, list[float]], name: str) -> float | None:
    return sizes[name][0] if sizes.get(name) else None


def _numbers(sizes: dict[str, list[float]]) -> tuple[Numbers, int]:
    """The sentence's sizes, with ``Process N has X`` told apart: ours where X is what torch says it holds."""
    named = list(sizes.get("named_process_gib", []))
    held = sum(sizes.get(name, [0.0])[0] for name in ("allocated_gib", "reserved_unallocated_gib"))
    slack = rules()["thresholds"]["context_gib"]
    if named and "this_process_gib" not in sizes and held:
        # Also ours: a process that would not fit on the card beside what torch holds.
        total = sizes.get("total_gib", [math.inf])[0]
        ours = [gib for gib in named if held - 0.1 <= gib and (gib <= held + slack or gib + held > total)]
        if ours:
            named.remove(min(ours, key=lambda gib: abs(gib - held)))
    fields = ("requested_gib", "total_gib", "free_gib", "allocated_gib", "reserved_gib", "reserved_unallocated_gib")
    values = {name: _one(sizes, name) for name in (*fields, "this_process_gib")}
    return Numbers(**values, other_processes_gib=sum(named) if named else None), len(named)


def _compare(n: Numbers, known: Known) -> set[str]:
    """The numbers against each other and against the card."""
    limits = rules()["thresholds"]
    names: set[str] = set()
    total = n.total_gib or known.gpu_gib
    held = n.this_process_gib
    if held is None and n.allocated_gib is not None:
        held = n.reserved_gib if n.reserved_gib is not None else n.allocated_gib + (n.reserved_unallocated_gib or 0)
    if n.free_gib is not None and n.free_gib <= limits["zero_free_gib"]:
        names.add("zero_free")
    if n.requested_gib and n.free_gib and n.requested_gib < limits["far_below_free"] * n.free_gib:
        names.add("request_far_below_free")
    if total:
        if n.requested_gib and n.requested_gib > total:
            names.add("request_exceeds_card")
        if n.allocated_gib and n.allocated_gib > total * 1.01:
            names.add("allocated_above_capacity")
        if held is not None and held >= limits["plainly_full"] * total:
            names.add("card_plainly_full")
        others = n.other_processes_gib or 0
        short = (n.requested_gib or 0) - (n.free_gib or 0)
        if others >= limits["foreign_share"] * total and others >= short:
            names.add("foreign_process")
        if held is not None and n.free_gib is not None and n.this_process_gib is None:
            unaccounted = total - n.free_gib - held - others
            if unaccounted >= max(limits["unaccounted_share"] * total, limits["unaccounted_gib"]):
                names.add("unaccounted_memory")
    return names


def _of_job(job: Job | None) -> set[str]:
    if job is None:
        return set()
    names = {"job_known"}
    limits = rules()["thresholds"]
    says = settings(job)
    resolutions, frames, batches = [], [], [says.get("train.batch_size")]
    for index in range(says.datasets):
        at = f"datasets[{index}]."
        resolution = says.get(at + "resolution")
        resolutions += resolution if isinstance(resolution, list) else [resolution]
        frames.append(says.get(at + "num_frames"))
        batches.append(says.get(at + "batch_size"))
        if says.get(at + "auto_frame_count"):
            frames.append(float("inf"))
    if (
        says.get("train.gradient_checkpointing")
        and all(_number(batch, 1) <= 1 for batch in batches)
        and all(_number(size, 0) <= limits["conservative_resolution"] for size in resolutions)
        and all(_number(count, 1) <= limits["conservative_frames"] for count in frames)
    ):
        names.add("conservative_job")
    if says.get("model.low_vram") or says.get("model.layer_offloading"):
        names.add("offloading_job")
    return names


def _number(value: Any, default: float) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else default


def _printed_exit_code(live: list[Finding]) -> int | None:
    """The exit code that a launcher or terminal printed, where none was given."""
    printed = [
        re.findall(r"(?:code|status|=)[\s:=]*(-?\d+|0x[0-9a-f]+)", f.text, re.I) for f in live if f.says == "exited"
    ]
    return int(printed[-1][-1], 0) if printed and printed[-1] else None


def _of_exit(code: int | None) -> set[str]:
    if code is None:
        return set()
    if code == 0:
        return {"exit_ok"}
    return {"exit_failed", *(f"exit_{how}" for how, codes in rules()["exit_codes"].items() if code in codes)}


def _system_of(reading: LogReading) -> set[str]:
    """Windows where a traceback's paths have a drive letter; other systems look alike."""
    files = (file for traceback in reading.tracebacks for file, _ in traceback.frames)
    return {"windows"} if any(file[1:3] == ":/" for file in files) else set()


def _of_end(reading: LogReading, timeline: Timeline, live: list[Finding], known: Known) -> set[str]:
    """Whether the run finished, was stopped, or slowed to a crawl."""
    names: set[str] = set()
    errors = [f for f in live if f.says in ("job_error", "some_error")]
    stops = [f for f in live if f.says == "stopped"]
    if stops and not any(f.says == "job_error" and f.line > stops[-1].line for f in errors):
        names.add("ended_by_stop")
    steps = timeline.steps
    saved = any(mark.stage == "save" for mark in reading.marks)
    reached_end = steps.total is not None and steps.done == steps.total and saved
    if known.exit_code == 0 or (known.exit_code is None and reached_end and not errors):
        names.add("finished")
    limits = rules()["thresholds"]
    for track in reading.bars[-3:]:
        slowest = track.slowest or 0
        # A preview's own steps; a labelled bar counts whole pictures.
        if slowest >= limits["paging_seconds"] and not track.last.label and track.repaints > 1:
            names.add("paging")
        if track is timeline.training and track.fastest and slowest >= limits["paging_seconds"]:
            names |= {"paging"} if slowest >= limits["paging_slowdown"] * track.fastest else set()
    return names


def weigh(reading: LogReading, known: Known, job: Job | None) -> tuple[Facts, Timeline]:
    """All facts of one failure."""
    says = settings(job) if job else None
    steps = says.get("train.steps") if says and says.has("train.steps") else None
    name = str(job.data.get("config", {}).get("name", "")) if job else ""
    timeline = Timeline(reading, name, steps if isinstance(steps, int) else None)
    live, swallowed = _split_swallowed(reading)
    fatal = _fatal(live)
    memory, other = set(rules()["memory"]), set(rules()["other"])
    names = {finding.says for finding in live}
    memory_live = [f for f in live if f.says in memory]

    if swallowed and any(f.says in memory for f in swallowed):
        names.add("swallowed_memory")
        if not memory_live:
            names.add("swallowed_only")
        last = max(f.line for f in swallowed)
        if any(f.says == "some_error" and f.line > last for f in live):
            names.add("some_error_after")
    if fatal and fatal.says in other | {"stopped"}:
        names.add("fatal_is_other")
    vram = [f.at for f in memory_live if f.says.startswith("vram")]
    host = [f.at for f in memory_live if f.says in ("host_alloc", "killed")]
    if vram and (not host or max(vram) > max(host)):
        names.add("vram_was_last")
    if fatal and fatal.says.startswith("vram"):
        names.add("vram_was_last")
    elif fatal and fatal.says in ("host_alloc", "killed"):
        names.discard("vram_was_last")

    decisive = fatal if fatal and fatal.says in memory | other else None
    if decisive is None:
        telling = memory_live or [f for f in live if f.says in other] or live
        decisive = telling[-1] if telling else None
    place = timeline.place_of(decisive)
    names |= {"before_training"} if place.before_training else set()
    names |= {f"in_{place.stage}"} | ({"in_training"} if place.stage == "train" else set())
    names |= {known.system} if known.system else _system_of(reading)

    with_sizes = [f for f in (*swallowed, *live) if f.sizes]
    measured = fatal if fatal and fatal.sizes else max(with_sizes, key=lambda f: f.at, default=None)
    numbers, named = _numbers(measured.sizes if measured else {})
    names |= _compare(numbers, known)
    exit_code = known.exit_code if known.exit_code is not None else _printed_exit_code(live)
    names |= _of_job(job) | _of_exit(exit_code) | _of_end(reading, timeline, live, known)
    names |= {"traceback"} if reading.tracebacks else set()
    names |= {"memory_live"} if memory_live else set()
    names |= {"shows_a_run"} if reading.marks or reading.bars else set()
    names |= {"any_line"} if reading.last_line[1].strip() else set()
    return Facts(frozenset(names), tuple(live), tuple(swallowed), fatal, place, measured, numbers, named), timeline
