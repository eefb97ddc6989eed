"""The same failures in the words of many programs: one line each, made up after the wording of the program named."""

from __future__ import annotations

import pytest

from headroom.contracts import Known
from headroom.diagnosis import diagnose, read_log

WORDS = [
    # the card
    ("torch-directml", "RuntimeError: Could not allocate tensor with 1048576000 bytes. There is not enough GPU video memory available!", "vram"),
    ("TensorFlow", "Resource exhausted: OOM when allocating tensor with shape[4,64,512,512] and type float", "vram"),
    ("XLA", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes.", "vram"),
    ("NCCL", "NCCL WARN Cuda failure 'out of memory'", "vram"),
    ("Paddle", "Out of memory error on GPU 0. Cannot allocate 512.000000MB memory on GPU 0", "vram"),
    ("MIOpen", "MIOpen Error: handlehip.cpp:70: Memory not available to allocate buffer: 1000", "vram"),
    ("MPS", "RuntimeError: Invalid buffer size: 40.50 GB", "vram"),
    ("Metal", "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)", "vram"),
    ("Vulkan", "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory", "vram"),
    ("TensorRT", "[E] Error Code 2: OutOfMemory (no further information)", "vram"),
    ("llama.cpp", "allocating 4096.00 MiB on device 0: cudaMalloc failed: out of memory", "vram"),
    ("torch before 1.0", "RuntimeError: cuda runtime error (2) : out of memory at THCStorage.cu:58", "vram"),
    ("ComfyUI", "!!! Exception during processing !!! Allocation on device 0 ", "vram"),
    ("accelerate", "No executable batch size found, reached zero.", "vram"),
    ("SYCL", "RuntimeError: Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES)", "vram"),
    ("cuDNN", "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution", "vram"),
    ("Chinese", "训练到一半爆显存了", "vram"),
    # the host
    ("Java", "java.lang.OutOfMemoryError: Java heap space", "host_ram"),
    ("Rust", "memory allocation of 8589934592 bytes failed", "host_ram"),
    ("mmap", "RuntimeError: unable to mmap 8589934592 bytes from file <model.safetensors>: Cannot allocate memory (12)", "host_ram"),
    ("earlyoom", "earlyoom[900]: low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%", "host_ram"),
    ("Slurm", "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0", "host_ram"),
    ("Kubernetes", "Last State: Terminated  Reason: OOMKilled  Exit Code: 137", "host_ram"),
    ("torchrun", "Signal 9 (SIGKILL) received by PID 12", "host_ram"),
    ("Windows in Russian", "OSError: [WinError 1455] Файл подкачки слишком мал для завершения операции", "page_file"),
    ("TensorFlow pinned", "could not allocate pinned host memory of size: 1073741824", "pinned_memory"),
    ("OneTrainer", "RuntimeError: CUDA Error while trying to pin memory", "pinned_memory"),
    ("torch shm", "RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode", "shared_memory"),
    # not memory
    ("Triton", "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 98304, Hardware limit: 65536", "not_memory"),
    ("Node", "EPERM: operation not permitted, rename 'a' -> 'b'\nError: it failed", "not_memory"),
    ("shell", "bash: accelerate: command not found", "not_memory"),
    ("cmd", "'git' is not recognized as an internal or external command", "not_memory"),
    ("AI Toolkit", "Error running job: Cannot use both differential output preservation and blank prompt preservation", "not_memory"),
    ("CUDA", "RuntimeError: CUDA error: device-side assert triggered", "not_memory"),
    ("safetensors", "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge", "not_memory"),
    # ends
    ("Slurm limit", "slurmstepd: error: *** JOB 1 ON n CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", "interrupted"),
    ("AI Toolkit queue", "Exception: Job returning to queue", "interrupted"),
    ("Windows exit code", "accelerate launch returned non-zero exit status 3221225477", "not_memory"),
    ("a state, no error", "# Running job: x\nstate { loading: true, error: null }", "none"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "cause"), [row[1:] for row in WORDS], ids=[row[0] for row in WORDS])
def test_a_failure_is_known_in_its_programs_words(line: str, cause: str) -> None:
    assert diagnose(read_log(line)).cause == cause


def test_a_process_that_cannot_be_another_is_this_one() -> None:
    log = (
        "CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 2.00 MiB is free. "
        "Process 7 has {} GiB memory in use. Of the allocated memory 75.21 GiB is allocated by PyTorch, and 0.40 GiB is "
        "reserved by PyTorch but unallocated."
    )
    alone = diagnose(read_log(log.format("79.09")))
    assert alone.cause == "vram" and alone.numbers.other_processes_gib is None
    beside = diagnose(read_log(log.format("3.40")))
    assert beside.cause == "other_process" and beside.numbers.other_processes_gib == 3.4


def test_a_bar_of_whole_pictures_is_not_slow_and_a_slow_step_is() -> None:
    pictures = "Generating Images:   0%|          | 0/2 [00:00<?, ?it/s]\rGenerating Images: 100%|##########| 2/2 [04:14<00:00, 127.18s/it]\n"
    assert diagnose(read_log(pictures)).cause == "none"
    steps = (
        pictures + "  3%|3         | 1/30 [01:55<55:46, 115.39s/it]\n  7%|6         | 2/30 [03:50<53:38, 114.95s/it]\n"
    )
    assert diagnose(read_log(steps)).cause == "spill"


def test_the_system_is_read_from_a_tracebacks_paths() -> None:
    log = (
        'Traceback (most recent call last):\n  File "C:\\train\\run.py", line 1, in main\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 12.00 GiB of "
        "which 8.57 GiB is free. Of the allocated memory 1.33 GiB is allocated by PyTorch, and 0.03 GiB is reserved by "
        "PyTorch but unallocated."
    )
    assert diagnose(read_log(log)).cause == "page_file"
    assert diagnose(read_log(log), Known(system="linux")).cause == "vram"
