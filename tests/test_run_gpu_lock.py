"""One run a GPU on a machine: the lock says who holds it and is free after any death."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from run_programs import ROOT, until

from headroom.run import gpu_lock, processes

GPU = "GPU-5f3c1d2e-0000-1111-2222-333344445555"
HOLD = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from headroom.run import gpu_lock
lock = gpu_lock.acquire(sys.argv[2], "a run", Path(sys.argv[3]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_gpu_is_held_by_one_run_and_the_other_learns_by_whom(tmp_path: Path) -> None:
    lock = gpu_lock.acquire(GPU, "my run", tmp_path)
    with pytest.raises(gpu_lock.GpuBusy) as busy:
        gpu_lock.acquire(GPU, "other run", tmp_path)
    assert busy.value.holder == gpu_lock.holder(GPU, tmp_path)
    assert busy.value.holder and (busy.value.holder.pid, busy.value.holder.run) == (os.getpid(), "my run")
    gpu_lock.acquire("GPU-other", "other run", tmp_path).release()
    lock.release()
    lock.release()
    assert gpu_lock.holder(GPU, tmp_path) is None
    gpu_lock.acquire(GPU, "other run", tmp_path).release()


def test_nobody_holds_a_gpu_that_was_never_used(tmp_path: Path) -> None:
    assert gpu_lock.holder(GPU, tmp_path / "none") is None
    assert not (tmp_path / "none").exists()


def test_the_lock_is_free_after_a_kill(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(ROOT), GPU, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"held\n"
    found = gpu_lock.holder(GPU, tmp_path)
    assert found and (found.pid, found.run) == (process.pid, "a run")
    process.kill()
    process.wait()
    process.stdout.close()
    until(lambda: gpu_lock.holder(GPU, tmp_path) is None, 20)
    gpu_lock.acquire(GPU, "next", tmp_path).release()


def test_what_stands_in_a_file_nobody_holds_means_nothing(tmp_path: Path) -> None:
    (tmp_path / f"{GPU}.lock").write_text(json.dumps({"pid": 1, "run": "old", "since": 0}), encoding="utf-8")
    assert gpu_lock.holder(GPU, tmp_path) is None
    gpu_lock.acquire(GPU, "new", tmp_path).release()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b'{"pid": null}'])
def test_a_holder_that_cannot_be_read_is_still_a_holder(tmp_path: Path, text: bytes) -> None:
    lock = gpu_lock.acquire(GPU, "run", tmp_path)
    (tmp_path / f"{GPU}.lock").write_bytes(text)
    with pytest.raises(gpu_lock.GpuBusy) as busy:
        gpu_lock.holder(GPU, tmp_path)
    assert busy.value.holder is None
    lock.release()


def test_a_gpu_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    gpu_lock.acquire("../../" + "x" * 300, "run", tmp_path / "a").release()
    assert [path.parent for path in tmp_path.rglob("*.lock")] == [tmp_path / "a"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes and links")
def test_every_user_may_use_the_file_and_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    before = os.umask(0o077)
    try:
        gpu_lock.acquire(GPU, "run", folder).release()
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert (folder / f"{GPU}.lock").stat().st_mode & 0o777 == 0o666
    target = tmp_path / "precious"
    target.write_text("keep", encoding="utf-8")
    (folder / "GPU-link.lock").symlink_to(target)
    with pytest.raises(OSError):
        gpu_lock.acquire("GPU-link", "run", folder)
    assert target.read_text(encoding="utf-8") == "keep"


def test_windows_locks_a_byte_that_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[int, int] = {}
    simulated = ModuleType("msvcrt")

    def locking(handle: int, mode: int, count: int) -> None:
        assert count == 1
        place = os.lseek(handle, 0, os.SEEK_CUR)
        file = os.fstat(handle).st_ino
        if mode == 0:
            del held[file]
        elif file in held:
            raise PermissionError
        else:
            held[file] = place

    simulated.locking, simulated.LK_NBLCK, simulated.LK_UNLCK = locking, 2, 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "msvcrt", simulated)
    monkeypatch.setattr(processes, "WINDOWS", True)
    lock = gpu_lock.acquire(GPU, "run", tmp_path)
    assert list(held.values()) == [1 << 30]
    found = gpu_lock.holder(GPU, tmp_path)
    assert found and found.run == "run"
    lock.release()
    assert held == {}
    monkeypatch.setenv("PROGRAMDATA", str(tmp_path))
    assert gpu_lock.default_folder() == tmp_path / "headroom" / "locks"
