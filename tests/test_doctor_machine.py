"""What is read of RAM, limits, /dev/shm, disks and the system, on made-up trees of /proc and /sys."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headroom.memory.machine import GIB, Space, read_machine, space_at, which_system
from headroom.report.wording import words

MEMINFO = (
    "MemTotal:       67108864 kB\nMemFree:         1048576 kB\nMemAvailable:   33554432 kB\nHugePages_Total:       0\n"
)


def tree(root: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n", encoding="utf-8")
    return root


def group(folder: str, limit: object, used: object, stat: str = "") -> dict[str, object]:
    """The files of a group of cgroup v2."""
    place = f"sys/fs/cgroup/{folder}".rstrip("/")
    return {f"{place}/memory.max": limit, f"{place}/memory.current": used, f"{place}/memory.stat": stat}


def test_without_a_limit_the_machine_is_all_there(tmp_path: Path) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/user.slice", **group("user.slice", "max", 5 * GIB)}
    machine = read_machine(tree(tmp_path, files), "linux")
    assert (machine.system, machine.ram, machine.ram_limited, machine.notes) == ("linux", Space(64.0, 32.0), False, ())


def test_a_container_limit_counts_and_droppable_cache_is_left(tmp_path: Path) -> None:
    stat = f"anon {4 * GIB}\ninactive_file {2 * GIB}\nactive_file 1"
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/", **group("", 16 * GIB, 10 * GIB, stat)}
    machine = read_machine(tree(tmp_path, files), "linux")
    assert (machine.ram, machine.ram_limited) == (Space(16.0, 8.0), True)


def test_a_limit_of_a_group_above_counts_too(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/pods/pod1/trainer",
        **group("pods/pod1/trainer", "max", 1 * GIB),
        **group("pods/pod1", 24 * GIB, 20 * GIB),
        **group("pods", 48 * GIB, 47 * GIB),
    }
    assert read_machine(tree(tmp_path, files), "linux").ram == Space(24.0, 1.0)


@pytest.mark.parametrize("named", ["/docker/0f3a", "/"])
def test_the_older_cgroups_limit_too_even_named_as_the_host_sees_them(tmp_path: Path, named: str) -> None:
    place = "sys/fs/cgroup/memory"
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": f"12:cpu,cpuacct:{named}\n4:memory:{named}\n0::/",
        f"{place}/memory.limit_in_bytes": 8 * GIB,
        f"{place}/memory.usage_in_bytes": 6 * GIB,
        f"{place}/memory.stat": f"inactive_file 0\ntotal_inactive_file {1 * GIB}",
    }
    machine = read_machine(tree(tmp_path, files), "linux")
    assert (machine.ram, machine.ram_limited) == (Space(8.0, 3.0), True)


def test_the_older_cgroups_way_to_say_no_limit_is_none(tmp_path: Path) -> None:
    place = "sys/fs/cgroup/memory/me"
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "4:memory:/me",
        f"{place}/memory.limit_in_bytes": 9223372036854771712,
        f"{place}/memory.usage_in_bytes": 6 * GIB,
    }
    machine = read_machine(tree(tmp_path, files), "linux")
    assert (machine.ram, machine.ram_limited) == (Space(64.0, 32.0), False)
    (tmp_path / "proc/meminfo").unlink()
    assert read_machine(tmp_path, "linux").ram is None


def test_a_limit_above_the_machine_is_no_limit(tmp_path: Path) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/", **group("", 128 * GIB, 100 * GIB)}
    machine = read_machine(tree(tmp_path, files), "linux")
    assert (machine.ram, machine.ram_limited) == (Space(64.0, 28.0), False)


def test_more_taken_than_allowed_leaves_nothing(tmp_path: Path) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/../x", **group("", 2 * GIB, 3 * GIB)}
    assert read_machine(tree(tmp_path, files), "linux").ram == Space(2.0, 0.0)


def test_an_unreadable_proc_is_said(tmp_path: Path) -> None:
    machine = read_machine(tmp_path, "linux")
    assert (machine.ram, machine.shm) == (None, None)
    assert "/proc" in words(machine.notes[0])


def test_dev_shm_is_the_space_of_its_own_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    sizes = {tmp_path / "dev/shm": SimpleNamespace(total=GIB // 16, free=GIB // 32)}
    monkeypatch.setattr(shutil, "disk_usage", lambda place: sizes[place])
    assert read_machine(tmp_path, "linux").shm == Space(1 / 16, 1 / 32)


def test_systems_are_told_apart(tmp_path: Path) -> None:
    assert which_system(tmp_path, "linux") == "linux"
    assert which_system(tmp_path, "win32") == "windows"
    assert which_system(tmp_path, "darwin") == "macos"
    assert which_system(tmp_path, "freebsd14") is None
    tree(tmp_path, {"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2"})
    assert which_system(tmp_path, "linux") == "wsl"


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_elsewhere_psutil_tells_the_ram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    answer = SimpleNamespace(total=32 * GIB, available=20 * GIB)
    monkeypatch.setitem(sys.modules, "psutil", SimpleNamespace(virtual_memory=lambda: answer))
    machine = read_machine(tmp_path, platform)
    assert (machine.ram, machine.shm, machine.notes) == (Space(32.0, 20.0), None, ())


def test_elsewhere_without_psutil_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    machine = read_machine(tmp_path, "win32")
    assert machine.ram is None and "pip install psutil" in words(machine.notes[0])


def test_the_disk_of_a_path_that_is_still_to_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def usage(place: Path) -> SimpleNamespace:
        if place != tmp_path:
            raise FileNotFoundError(place)
        return SimpleNamespace(total=100 * GIB, free=40 * GIB)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert space_at(tmp_path / "runs" / "new") == Space(100.0, 40.0)


def test_a_disk_that_cannot_be_read_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def usage(place: Path) -> SimpleNamespace:
        raise PermissionError(place)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert space_at(tmp_path) is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
def test_this_machine_is_read() -> None:
    machine = read_machine()
    assert machine.ram is not None and 0 < machine.ram.free_gib <= machine.ram.total_gib
    assert machine.notes == ()
