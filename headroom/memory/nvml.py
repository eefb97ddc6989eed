"""The GPUs of this machine as the NVIDIA driver reports them, and who uses them. The only module that talks to NVML."""

from __future__ import annotations

import ntpath
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..contracts import Sentence, say

GIB = 2**30
UNSHOWN_GIB = 1.0  # taken but by no listed process: the driver's own part of a card stays below this


@dataclass(frozen=True)
class GpuProcess:
    """A process that uses a GPU; ``used_gib`` and ``name`` are ``None`` where the driver does not say."""

    pid: int
    used_gib: float | None
    name: str | None


@dataclass(frozen=True)
class Gpu:
    """A card, or one MIG instance of it (``card`` is then the card's UUID; a run is pinned by the instance's own).

    Sizes are ``None`` where the driver does not say. ``processes`` is ``None`` where they cannot be listed at all;
    an empty tuple is no proof of an unused card either: ``unshown_gib`` is what is taken and listed for nobody.
    """

    index: int
    uuid: str
    name: str
    total_gib: float | None
    free_gib: float | None
    processes: tuple[GpuProcess, ...] | None
    card: str | None = None

    @property
    def unshown_gib(self) -> float | None:
        """GiB in use by no listed process; ``None`` where processes or their sizes are not known."""
        if self.total_gib is None or self.free_gib is None or self.processes is None:
            return None
        sizes = [process.used_gib for process in self.processes]
        known = [size for size in sizes if size is not None]
        return max(0.0, self.total_gib - self.free_gib - sum(known)) if len(known) == len(sizes) else None


@dataclass(frozen=True)
class GpuReading:
    """One answer of the driver (its version, if it answers). ``notes`` say what it does not tell, and why."""

    driver: str | None = None
    gpus: tuple[Gpu, ...] = ()
    notes: tuple[Sentence, ...] = ()


def read_gpus() -> GpuReading:
    """The GPUs as they are now. Never raises: what cannot be read is ``None``, and a note says so."""
    try:
        import pynvml
    except ImportError:
        return GpuReading(notes=(say("doctor.nvml.no_package", python=sys.executable),))
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return GpuReading(notes=(_unanswered(pynvml, error),))
    try:
        return _read(pynvml)
    except pynvml.NVMLError as error:  # the driver went away while it was asked
        return GpuReading(notes=(_unanswered(pynvml, error),))
    finally:
        with suppress(pynvml.NVMLError):  # where the driver is gone, nothing is left to be shut down
            pynvml.nvmlShutdown()


def _unanswered(nvml: Any, error: Any) -> Sentence:
    causes = {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: "doctor.nvml.no_driver",
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: "doctor.nvml.not_loaded",
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "doctor.nvml.mismatch",
        nvml.NVML_ERROR_NO_PERMISSION: "doctor.nvml.no_permission",
    }
    return say(causes.get(error.value, "doctor.nvml.error"), error=str(error))


def _read(nvml: Any) -> GpuReading:
    driver = _text(nvml.nvmlSystemGetDriverVersion())
    gpus: list[Gpu] = []
    notes: list[Sentence] = []
    count = nvml.nvmlDeviceGetCount()
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            card = _text(nvml.nvmlDeviceGetUUID(handle))
            if _asked(nvml, nvml.nvmlDeviceGetMigMode, handle, default=(0, 0))[0]:
                gpus += _instances(nvml, handle, index, card, notes)
            else:
                gpus.append(_gpu(nvml, handle, index, card, None, notes))
        except nvml.NVMLError as error:
            notes.append(say("doctor.nvml.lost", index=index, error=str(error)))
    if count == 0:
        notes.append(say("doctor.nvml.none"))
    return GpuReading(driver, tuple(gpus), tuple(notes))


def _instances(nvml: Any, handle: Any, index: int, card: str, notes: list[Sentence]) -> list[Gpu]:
    """The MIG instances of a card; CUDA can use these, not the card."""
    found = []
    for at in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, at)
            found.append(_gpu(nvml, instance, index, _text(nvml.nvmlDeviceGetUUID(instance)), card, notes))
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_NOT_FOUND:  # a place without an instance
                notes.append(say("doctor.nvml.lost", index=f"{index}, MIG {at}", error=str(error)))
    if not found:
        notes.append(say("doctor.nvml.mig_empty", index=index))
    return found


def _gpu(nvml: Any, handle: Any, index: int, uuid: str, card: str | None, notes: list[Sentence]) -> Gpu:
    name = _text(_asked(nvml, nvml.nvmlDeviceGetName, handle, default="?"))
    memory = _asked(nvml, nvml.nvmlDeviceGetMemoryInfo, handle, default=None)
    total, free = (memory.total / GIB, memory.free / GIB) if memory else (None, None)
    gpu = Gpu(index, uuid, name, total, free, _processes(nvml, handle), card)
    if memory is None:
        notes.append(say("doctor.nvml.no_memory", name=name))
    if gpu.processes is None:
        notes.append(say("doctor.nvml.no_processes", name=name))
    elif any(process.used_gib is None for process in gpu.processes):
        notes.append(say("doctor.nvml.no_process_memory", name=name))
    elif (gpu.unshown_gib or 0.0) > UNSHOWN_GIB:
        notes.append(say("doctor.nvml.unshown", name=name, gib=gpu.unshown_gib))
    return gpu


def _processes(nvml: Any, handle: Any) -> tuple[GpuProcess, ...] | None:
    """Who uses the GPU, largest first; a process that computes and draws stands in both of the driver's lists."""
    lists = [
        _asked(nvml, ask, handle, default=None)
        for ask in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses)
    ]
    if all(found is None for found in lists):
        return None
    used: dict[int, int | None] = {}
    for process in (process for found in lists for process in found or ()):
        sizes = [size for size in (used.get(process.pid), process.usedGpuMemory) if size is not None]
        used[process.pid] = max(sizes, default=None)
    processes = [
        GpuProcess(pid, None if size is None else size / GIB, _program(nvml, pid)) for pid, size in used.items()
    ]
    return tuple(sorted(processes, key=lambda process: (-(process.used_gib or 0.0), process.pid)))


def _program(nvml: Any, pid: int) -> str | None:
    """The program's file name, without its folder; Windows and POSIX paths alike."""
    path = _asked(nvml, nvml.nvmlSystemGetProcessName, pid, default=None)
    return ntpath.basename(_text(path)) or None if path else None


def _asked(nvml: Any, ask: Callable[[Any], Any], of: Any, default: Any) -> Any:
    """The driver's answer, or the default where it has none to this question; a card that is gone is no such answer."""
    try:
        return ask(of)
    except nvml.NVMLError as error:
        gone = (
            nvml.NVML_ERROR_GPU_IS_LOST,
            nvml.NVML_ERROR_DRIVER_NOT_LOADED,
            nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
            nvml.NVML_ERROR_UNINITIALIZED,
            nvml.NVML_ERROR_RESET_REQUIRED,
        )
        if error.value in gone:
            raise
        return default


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value  # bytes before nvidia-ml-py 12
