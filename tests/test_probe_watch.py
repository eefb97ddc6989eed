"""What the probe sees beside the run itself: memory, downloads, a limit on host memory, errors that are swallowed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from headroom.contracts import Event, Known
from headroom.diagnosis import diagnose, read_log
from headroom.probe import control as control_module
from headroom.probe import host_memory
from headroom.probe.channel import Channel
from headroom.probe.control import Control
from headroom.probe.downloads import Downloads
from headroom.probe.gauges import HostGauge, Peak
from headroom.probe.phases import Phases
from headroom.probe.swallowed import Swallowed
from headroom.probe.torch_errors import inside
from headroom.probe.trainer import Trainer
from headroom.probe.watch import Watch
from headroom.run.events import EventReader, read_events

ROOT = Path(__file__).resolve().parent.parent
MIB = 2**20


class Gauge(HostGauge):
    """Reads what the test wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Peak = {"allocated_gib": 1.0, "reserved_gib": 2.0, "device_gib": None, "host_gib": 4.0}

    def now(self) -> Peak:
        return dict(self.reads)


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return Channel(str(tmp_path / "events"))


def told(tmp_path: Path, event: str) -> list[dict[str, Any]]:
    return [dict(each.keys) for each in read_events(tmp_path / "events") if each.event == event]


# --- memory


def test_memory_is_told_as_it_changes_and_not_while_it_does_not(tmp_path: Path, channel: Channel) -> None:
    gauge = Gauge()
    watch = Watch(channel, lambda: gauge, Downloads(channel))
    for allocated in (1.0, 1.0, 1.01, 1.04, 1.2, 1.2, 0.5):
        gauge.reads["allocated_gib"] = allocated
        watch.look()
    assert [each["allocated_gib"] for each in told(tmp_path, "memory")] == [1.0, 1.2, 0.5]
    assert told(tmp_path, "memory")[0] == {
        "allocated_gib": 1.0,
        "reserved_gib": 2.0,
        "device_gib": None,
        "host_gib": 4.0,
    }


def test_a_small_thread_looks_and_ends_with_the_run(tmp_path: Path, channel: Channel) -> None:
    looked = threading.Event()

    class Seen(Gauge):
        def now(self) -> Peak:
            looked.set()
            return super().now()

    watch = Watch(channel, Seen, Downloads(channel))
    watch.start()
    assert looked.wait(20)
    watch.stop()
    assert not any(each.name == "headroom-watch" for each in threading.enumerate())


def test_a_watch_that_fails_says_so_and_ends_no_run(tmp_path: Path, channel: Channel) -> None:
    class Broken(Gauge):
        def now(self) -> Peak:
            raise RuntimeError("driver gone")

    Watch(channel, Broken, Downloads(channel))._run()
    (note,) = told(tmp_path, "note")
    assert note["text"] == "memory and downloads are watched no longer: RuntimeError: driver gone"


def test_the_host_memory_of_a_run_is_its_own_and_that_of_its_children() -> None:
    before = host_memory.tree_gib()
    if before is None:
        pytest.skip("the host memory of a process tree; install psutil")
    text = f"held = bytearray({64 * MIB}); held[::4096] = b'1' * len(held[::4096]); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline()
        during = host_memory.tree_gib()
        child.stdin.close()
    after = host_memory.tree_gib()
    assert during is not None and after is not None
    assert 64 / 1024 <= during - before < 0.5
    assert after < during - 60 / 1024


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that share memory; Linux or macOS")
def test_what_a_forked_worker_shares_with_the_run_counts_once() -> None:
    held = bytearray(256 * MIB)
    held[::4096] = b"1" * len(held[::4096])
    before = host_memory.tree_gib()
    if before is None:
        pytest.skip("the host memory of a process tree; install psutil")
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(theirs)
        os.read(ours, 1)
        os._exit(len(held) and 0)
    during = host_memory.tree_gib()
    os.close(ours)
    os.close(theirs)
    os.waitpid(child, 0)
    assert during is not None and during - before < 0.125


# --- the limit on host memory


def test_a_run_above_its_host_memory_is_told_once_and_stopped(tmp_path: Path, channel: Channel) -> None:
    gauge, control = Gauge(), Control(channel.note)
    control.training = True
    watch = Watch(channel, lambda: gauge, Downloads(channel), 5.0, control.limit)
    watch.look()
    assert control.why is None and not control.stop_asked
    gauge.reads["host_gib"] = 5.5
    watch.look()
    watch.look()
    assert control.stop_asked and control.take() == ["stop"]
    assert [each["text"] for each in told(tmp_path, "note")] == [
        "host memory limit exceeded: the run holds 5.50 GiB of the 5 GiB it may take"
    ]


def test_it_is_saved_and_ends_as_a_failure_that_names_host_memory(tmp_path: Path, channel: Channel) -> None:
    control = Control(channel.note)
    control.training = True
    trainer = Trainer(channel, Phases(channel, HostGauge()), control, "off")
    saved: list[int] = []
    process = SimpleNamespace(
        optimizer=SimpleNamespace(zero_grad=lambda: None),
        save=saved.append,
        step_num=7,
        ensure_params_requires_grad=lambda: None,
    )
    control.limit("host memory limit exceeded: the run holds 5.50 GiB of the 5 GiB it may take")
    with pytest.raises(MemoryError, match="host memory limit exceeded") as caught:
        trainer.carry_out(control.take()[0], process)
    assert saved == [7]
    log = f'Error running job: {caught.value}\nTraceback (most recent call last):\n  File "run.py", line 9, in main\n    job.run()\nMemoryError: {caught.value}\n'
    assert diagnose(read_log(log.encode()), Known(exit_code=1), None).cause == "host_ram"


def test_before_training_it_ends_at_once_with_the_same_words(
    tmp_path: Path, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted: list[bool] = []
    monkeypatch.setattr(control_module._thread, "interrupt_main", lambda: interrupted.append(True))
    control = Control(channel.note)
    trainer = Trainer(channel, Phases(channel, HostGauge()), control, "off")

    class BaseSDTrainProcess:
        def run(self) -> None:
            control.limit("host memory limit exceeded")
            raise KeyboardInterrupt  # as the interrupt does in the main thread

    trainer.install(BaseSDTrainProcess)
    with pytest.raises(MemoryError, match="host memory limit exceeded"):
        BaseSDTrainProcess().run()
    assert interrupted == [True]


# --- downloads


def hub(download: Any) -> ModuleType:
    module = ModuleType("huggingface_hub.file_download")
    module._download_to_tmp_and_move = download  # type: ignore[attr-defined]
    return module


def test_a_download_is_told_as_it_grows(tmp_path: Path, channel: Channel) -> None:
    downloads = Downloads(channel)

    def download(incomplete_path: Path, destination_path: Path, url_to_download: str, expected_size: int) -> None:
        # Newer ones write beside the path that they are given.
        part = incomplete_path.with_name(f"{incomplete_path.stem}.1a2b.incomplete")
        for size in (0, MIB, 2 * MIB):
            part.write_bytes(b"1" * size)
            downloads.look()
            downloads.look()
        part.rename(destination_path)

    module = hub(download)
    downloads.install(module)
    url = "https://hub.example/owner/model/resolve/main/transformer/weights.safetensors?download=true"
    module._download_to_tmp_and_move(tmp_path / "abc.incomplete", tmp_path / "abc", url, expected_size=3 * MIB)
    events = told(tmp_path, "download")
    assert [each["bytes"] for each in events] == [0, MIB, 2 * MIB, 3 * MIB]
    assert {(each["name"], each["total"]) for each in events} == {
        ("owner/model/transformer/weights.safetensors", 3 * MIB)
    }
    downloads.look()
    assert len(told(tmp_path, "download")) == 4


def test_a_download_that_fails_is_followed_no_longer_and_small_files_are_not_told(
    tmp_path: Path, channel: Channel
) -> None:
    downloads = Downloads(channel)

    def download(incomplete_path: Path, url_to_download: str, expected_size: int | None) -> None:
        raise OSError("connection reset")

    module = hub(download)
    downloads.install(module)
    for size in (100, None):
        with pytest.raises(OSError, match="connection reset"):
            module._download_to_tmp_and_move(tmp_path / "a.incomplete", "https://h/o/m/resolve/main/a", size)
    (tmp_path / "a.incomplete").write_bytes(b"1" * MIB)
    downloads.look()
    assert [(each["bytes"], each["total"]) for each in told(tmp_path, "download")] == [(0, None)]


@pytest.mark.parametrize("module", [ModuleType("none"), hub(lambda url, target: None)])
def test_a_hub_that_downloads_in_another_way_is_said_and_left_alone(
    tmp_path: Path, channel: Channel, module: ModuleType
) -> None:
    before = dict(vars(module))
    Downloads(channel).install(module)
    assert vars(module) == before
    assert "downloads are not seen" in told(tmp_path, "note")[0]["text"]


class Hub(BaseHTTPRequestHandler):
    """As much of Hugging Face's hub as one file needs; it sends the second half when the test lets it."""

    content: ClassVar[bytes] = bytes(40 * MIB)  # the client writes pieces of 10 MiB
    half_seen: ClassVar[threading.Event]

    def do_HEAD(self) -> None:
        self._head()

    def do_GET(self) -> None:
        self._head()
        middle = len(self.content) // 2
        self.wfile.write(self.content[:middle])
        self.wfile.flush()
        assert self.half_seen.wait(60)
        self.wfile.write(self.content[middle:])

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _head(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.send_header("ETag", '"0123456789abcdef"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.end_headers()


@pytest.fixture
def hub_address() -> Iterator[str]:
    Hub.half_seen = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    Hub.half_seen.set()
    server.shutdown()
    server.server_close()


DOWNLOAD = """
import sys
sys.path.insert(0, sys.argv[1])
from headroom.probe.after_import import after_import
from headroom.probe.channel import Channel
from headroom.probe.downloads import Downloads
from headroom.probe.gauges import HostGauge
from headroom.probe.watch import Watch
channel = Channel(sys.argv[2])
downloads = Downloads(channel)
after_import("huggingface_hub.file_download", downloads.install)
Watch(channel, HostGauge, downloads).start()
from huggingface_hub import hf_hub_download
print(hf_hub_download("owner/model", "weights.safetensors"))
"""


def test_the_real_hub_client_is_followed_while_it_downloads(tmp_path: Path, hub_address: str) -> None:
    if importlib.util.find_spec("huggingface_hub") is None:
        pytest.skip("huggingface_hub in the Python of the tests; `python tests` makes one that has it")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGINGFACE"))}
    environment |= {"HF_ENDPOINT": hub_address, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
    events = tmp_path / "events"
    command = [sys.executable, "-c", DOWNLOAD, str(ROOT), str(events)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        reader, seen = EventReader(events), list[Event]()
        while not any(event.event == "download" and 0 < event.keys["bytes"] < len(Hub.content) for event in seen):
            seen += reader.read()
            if process.poll() is not None:
                assert process.stderr is not None
                raise AssertionError(process.stderr.read().decode())
            time.sleep(0.05)
        Hub.half_seen.set()
        out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error.decode()
    assert Path(out.decode().strip()).read_bytes() == Hub.content
    downloads = [event.keys for event in read_events(events) if event.event == "download"]
    sizes = [keys["bytes"] for keys in downloads]
    assert (sizes[0], sizes[-1], sizes) == (0, len(Hub.content), sorted(sizes))
    assert {(keys["name"], keys["total"]) for keys in downloads} == {
        ("owner/model/weights.safetensors", len(Hub.content))
    }


# --- errors that AI Toolkit goes on after

QUANTIZE = """
def quantize(layers):
    for layer in layers:
        try:
            layer()
        except Exception as error:
            print(f"Failed to quantize: {error}")

def save():
    try:
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")
    except Exception as error:
        print_acc(error)
        print_acc("Could not save optimizer")
    print_acc("saved")
"""


class OutOfMemoryError(RuntimeError):
    """Named as torch names it."""


def test_an_error_that_is_printed_and_forgotten_is_told_once_for_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    module = ModuleType("toolkit.util.quantize")
    vars(module).update(OutOfMemoryError=OutOfMemoryError, print_acc=print)
    exec(compile(QUANTIZE, "/a/toolkit/util/quantize.py", "exec"), vars(module))

    def fails() -> None:
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    def breaks() -> None:
        raise ValueError("no such type")

    seen: list[tuple[str, str]] = []
    swallowed = Swallowed(lambda error: seen.append((str(error), inside(error, "load"))))
    swallowed.listen(module)
    module.quantize([fails, breaks, fails, fails])
    module.save()
    assert seen == [
        ("CUDA out of memory. Tried to allocate 2.00 GiB.", "quantize"),
        ("CUDA out of memory. Tried to allocate 1.00 GiB.", "load"),
    ]
    assert swallowed.counts == {"quantize": 3, "save": 1}
    printed = capsys.readouterr().out
    assert printed.count("Failed to quantize") == 4 and printed.endswith("Could not save optimizer\nsaved\n")
