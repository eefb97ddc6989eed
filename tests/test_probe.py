"""The probe's own parts, without torch and AI Toolkit: its events, what a message says, sizes, hooks, phases, requests."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from headroom.probe import control as control_module
from headroom.probe.after_import import after_import
from headroom.probe.batches import describe
from headroom.probe.channel import Channel
from headroom.probe.control import Control
from headroom.probe.gauges import MeterGauge, Peak, Room, worst
from headroom.probe.largest_bucket import DoesNotFit, LargestBucket
from headroom.probe.launch import parser
from headroom.probe.meter import Meter
from headroom.probe.phases import Phases, Reached
from headroom.probe.previews import Previews
from headroom.probe.restoring import Merges
from headroom.probe.smaller import Size, smaller
from headroom.probe.stand_ins import stand_in_for_cuda
from headroom.probe.torch_errors import is_out_of_memory, numbers, place
from headroom.probe.wrapping import wrap
from headroom.run.events import read_events

PROBE = Path(__file__).resolve().parent.parent / "headroom" / "probe" / "__main__.py"
MESSAGE = (
    "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 512.00 MiB is "
    "free. Process 41 has 2.00 GiB memory in use. Process 42 has 1.00 GiB memory in use. Including non-PyTorch memory, "
    "this process has 20.15 GiB memory in use. 20.00 GiB allowed; Of the allocated memory 19.00 GiB is allocated by "
    "PyTorch, and 256.00 MiB is reserved by PyTorch but unallocated."
)


class OutOfMemoryError(RuntimeError):
    """Named as torch names it."""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- events


def test_an_event_of_the_probe_is_read_by_the_core_as_it_was_written(tmp_path: Path) -> None:
    channel = Channel(str(tmp_path / "events.jsonl"))
    channel.write("step", step=1, total=9, loss=float("nan"), bucket=(64, 96, 1), name="caf\u00e9 \ud800")
    channel.note("said")
    step, note = read_events(tmp_path / "events.jsonl")
    assert (step.v, step.seq, step.event) == (1, 1, "step")
    assert step.keys == {"step": 1, "total": 9, "loss": None, "bucket": [64, 96, 1], "name": "caf\u00e9 ?"}
    assert (note.seq, note.event, note.keys) == (2, "note", {"text": "said"})
    assert 0 <= step.t <= note.t


def test_numbers_of_other_types_are_written_as_numbers(tmp_path: Path) -> None:
    class Tensor:
        def __float__(self) -> float:
            return 0.5

    Channel(str(tmp_path / "events")).write("step", loss=Tensor(), path=Path("a"))
    assert lines(tmp_path / "events")[0].items() >= {"loss": 0.5, "path": "a"}.items()


def test_a_file_that_has_events_is_numbered_on_and_its_torn_line_ended(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text('{"v":1,"seq":7,"t":100.0,"event":"note","text":"a"}\n{"v":1,"seq":8,"t":10', encoding="utf-8")
    Channel(str(file)).note("b")
    first, second = read_events(file)
    assert (second.seq, second.keys["text"]) == (8, "b")
    assert second.t >= first.t == 100.0


def test_events_go_to_an_open_descriptor_too(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "events", os.O_WRONLY | os.O_CREAT)
    Channel(str(descriptor)).note("here")
    os.close(descriptor)
    assert lines(tmp_path / "events")[0]["text"] == "here"


def test_what_could_not_be_written_is_counted_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, write = Channel(str(tmp_path / "events")), os.write

    def full(descriptor: int, text: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    channel.note("lost")
    channel.note("lost too")
    monkeypatch.setattr(os, "write", write)
    channel.note("kept")
    events = read_events(tmp_path / "events")
    assert [event.keys["text"] for event in events] == ["2 events could not be written", "kept"]
    assert [event.seq for event in events] == [1, 2]


def test_a_line_written_in_part_does_not_take_the_next_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channel, write = Channel(str(tmp_path / "events")), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, text: write(descriptor, text[:9]))
    channel.note("torn")
    monkeypatch.setattr(os, "write", write)
    channel.note("whole")
    assert [event.keys["text"] for event in read_events(tmp_path / "events")][-1] == "whole"


# --- messages


def test_the_numbers_of_a_message_are_read_in_gib() -> None:
    assert numbers(MESSAGE) == {
        "requested_gib": 1.5,
        "total_gib": 23.65,
        "free_gib": 0.5,
        "this_process_gib": 20.15,
        "other_processes_gib": 3.0,
        "allowed_gib": 20.0,
        "allocated_gib": 19.0,
        "reserved_unallocated_gib": 0.25,
    }
    assert numbers("CUDA error: out of memory") == {}


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (OutOfMemoryError("anything"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("OOM during training step 3 times in a row, aborting training"), False),
        (ValueError("CUDA out of memory"), False),
        (MemoryError(), False),
    ],
)
def test_only_the_accelerators_memory_counts(error: BaseException, is_one: bool) -> None:
    assert is_out_of_memory(error) is is_one


@pytest.mark.parametrize(
    ("frames", "what"),
    [
        ([("jobs/process/BaseSDTrainProcess.py", "run"), ("diffusers/models/unet.py", "forward")], "forward"),
        ([("torch/_tensor.py", "backward"), ("torch/utils/checkpoint.py", "recompute_fn"), ("m.py", "forward")], "backward"),
        ([("accelerate/optimizer.py", "step"), ("torch/optim/adamw.py", "step")], "optimizer"),
        ([("diffusers/schedulers/euler.py", "step")], "forward"),
        ([("pipe.py", "__call__"), ("diffusers/autoencoder_kl.py", "decode"), ("conv.py", "forward")], "decode"),
        ([("toolkit/models/base_model.py", "encode_prompt"), ("clip.py", "forward")], "text"),
        ([("toolkit/dataloader_mixins.py", "_cache_one_latent"), ("toolkit/x.py", "encode_images")], "encode"),
        ([], "forward"),
    ],
)  # fmt: skip
def test_frames_tell_what_was_going_on(frames: list[tuple[str, str]], what: str) -> None:
    assert place(frames, "forward") == what


# --- previews


@pytest.mark.parametrize(
    ("size", "multiple", "step", "next_size"),
    [
        (Size(1024, 1024), 16, None, Size(720, 720)),
        (Size(1024, 512), 64, None, Size(704, 320)),
        (Size(832, 480, 81), 16, 4, Size(832, 480, 41)),
        (Size(768, 512, 121), 32, 8, Size(768, 512, 65)),
        (Size(832, 480, 5), 16, 4, Size(832, 480, 1)),
        (Size(832, 480, 56), 16, 17, Size(832, 480, 39)),
        (Size(832, 480, 81), 16, None, Size(576, 336, 81)),
        (Size(64, 64), 16, None, None),
        (Size(80, 64), 64, None, Size(64, 64)),
    ],
)
def test_a_smaller_preview_is_a_legal_one(size: Size, multiple: int, step: int | None, next_size: Size | None) -> None:
    assert smaller(size, multiple, step) == next_size


# --- hooks


def test_a_method_that_calls_the_one_it_overrides_is_seen_once() -> None:
    class Base:
        def save(self, step: int) -> list[int]:
            return [step]

    class Derived(Base):
        def save(self, step: int) -> list[int]:
            return [*super().save(step), step + 1]

    seen: list[int] = []

    def around(self: object, call: Any, step: int) -> Any:
        seen.append(step)
        return call(step)

    assert wrap(Derived, "save", around)
    assert wrap(Base, "save", around)
    assert not wrap(Derived, "absent", around)
    assert Derived().save(1) == [1, 2]
    assert Base().save(5) == [5]
    assert seen == [1, 5]


def test_an_error_leaves_a_hook_ready_for_the_next_call() -> None:
    class Once:
        def go(self, fail: bool) -> None:
            if fail:
                raise ValueError

    seen: list[bool] = []

    def around(self: object, call: Any, fail: bool) -> Any:
        seen.append(fail)
        return call(fail)

    wrap(Once, "go", around)
    with pytest.raises(ValueError):
        Once().go(True)
    Once().go(False)
    assert seen == [True, False]


def test_something_is_done_right_after_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_later.py").write_text("before = 'written by the module'\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[ModuleType] = []
    after_import("imported_later", seen.append)
    finders = list(sys.meta_path)
    import imported_later  # type: ignore[import-not-found]

    assert [module.before for module in seen] == ["written by the module"]
    assert imported_later.__spec__.loader.get_source("imported_later").startswith("before")
    assert len(sys.meta_path) == len(finders) - 1
    after_import("imported_later", seen.append)
    assert len(seen) == 2


def test_calls_to_the_driver_are_answered_only_where_there_is_none() -> None:
    def torch(available: bool) -> Any:
        return SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: available))

    without, with_one = torch(False), torch(True)
    assert stand_in_for_cuda(without) and not stand_in_for_cuda(with_one)
    assert without.cuda.current_device() == 0
    assert without.cuda.get_device_properties("cuda:0").warp_size == 32
    assert without.cuda.ipc_collect() is None
    assert vars(with_one.cuda).keys() == {"is_available"}


# --- phases


class Scripted:
    """A gauge that reads what the test wrote."""

    def __init__(self) -> None:
        self.most = 0.0

    def begin(self) -> None:
        self.most = 0.0

    def peak(self) -> Peak:
        return {"allocated_gib": self.most, "host_gib": None}

    def now(self) -> Peak:
        return self.peak()

    def room(self) -> Room | None:
        return None


def test_a_phase_inside_another_keeps_its_peak_for_itself(tmp_path: Path) -> None:
    gauge = Scripted()
    phases = Phases(Channel(str(tmp_path / "events")), gauge)
    phases.begin("train")
    gauge.most = 3.0
    with phases.within("sample"):
        assert phases.current == "sample" and phases.inside("train")
        gauge.most = 9.0
    gauge.most = 2.0
    phases.end_all()
    ends = {event["phase"]: event["peak"] for event in lines(tmp_path / "events") if event["state"] == "end"}
    assert {phase: peak["allocated_gib"] for phase, peak in ends.items()} == {"sample": 9.0, "train": 3.0}
    assert ends["train"]["host_gib"] is None
    assert phases.current == "startup"


def test_a_phase_that_failed_ends_with_what_was_open_in_it(tmp_path: Path) -> None:
    phases = Phases(Channel(str(tmp_path / "events")), Scripted())
    phases.begin("train")
    with pytest.raises(ValueError), phases.within("save"):
        raise ValueError
    phases.begin("sample")
    phases.end_all()
    told = [(event["phase"], event["state"]) for event in lines(tmp_path / "events")]
    assert told[-2:] == [("sample", "end"), ("train", "end")]


@pytest.mark.parametrize(("until", "passes"), [("load", []), ("cache", ["load"]), ("train", ["load", "cache"])])
def test_a_run_ends_after_the_phase_it_was_asked_to_go_to(tmp_path: Path, until: str, passes: list[str]) -> None:
    phases = Phases(Channel(str(tmp_path / "events")), Scripted(), until)
    passed = []
    try:
        for phase in ("load", "cache"):
            phases.begin(phase)
            phases.pass_by(phase)
            passed.append(phase)
    except Reached:
        assert phases.reached
    assert passed == passes


def test_the_larger_of_two_peaks_is_taken_number_by_number() -> None:
    assert worst({"allocated_gib": 1.0, "host_gib": 5.0}, {"allocated_gib": 2.0}) == {
        "allocated_gib": 2.0,
        "reserved_gib": None,
        "device_gib": None,
        "host_gib": 5.0,
    }


# --- batches


def test_a_step_names_its_largest_bucket_and_all_its_files() -> None:
    def batch(width: int, frames: int, *paths: str) -> SimpleNamespace:
        items = [SimpleNamespace(crop_width=width, crop_height=64, num_frames=frames, path=path) for path in paths]
        return SimpleNamespace(file_items=items)

    given = describe([batch(64, 1, "a", "b"), batch(128, 5, "c")])
    assert (given.bucket, given.items, given.files) == ((128, 64, 5), 1, ("a", "b", "c"))
    assert describe(batch(64, 1, "a", "b")).items == 2
    assert describe(None).bucket is None


# --- requests


def test_requests_wait_for_the_end_of_a_step_and_stop_comes_last() -> None:
    notes: list[str] = []
    control = Control(notes.append)
    control.training = True
    for word in ("stop", "sample", "save", "sample", "dance"):
        control.ask(word)
    assert control.take() == ["save", "sample", "stop"]
    assert control.take() == []
    assert notes == ["asked for 'dance', which is none of save, sample, stop"]


def test_the_end_of_the_pipe_interrupts_the_run_and_then_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, interrupted, notes = threading.Event(), [], []
    monkeypatch.setattr(control_module, "_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(control_module, "end_now", ended.set)
    monkeypatch.setattr(control_module._thread, "interrupt_main", lambda: interrupted.append(True))
    ours, theirs = os.pipe()
    control = Control(notes.append)
    control.training = True
    control.listen(ours)
    os.write(theirs, b"save\n")
    os.close(theirs)
    assert ended.wait(20)
    os.close(ours)
    assert interrupted == [True] and control.take() == ["save"]
    assert notes == ["the control pipe was closed: the run ends"]


# --- the meter


def test_the_meter_runs_out_at_the_budget_in_torchs_own_words() -> None:
    meter = Meter(budget_bytes=5 * 2**20, error=OutOfMemoryError)
    assert meter.add(1, 3 * 2**20) and not meter.add(1, 3 * 2**20)
    with pytest.raises(OutOfMemoryError) as caught:
        meter.add(2, 2**21 + 1)
    assert is_out_of_memory(caught.value)
    assert numbers(str(caught.value)) == {
        "requested_gib": pytest.approx(2 / 1024, rel=0.01),
        "total_gib": pytest.approx(5 / 1024, rel=0.01),
        "free_gib": pytest.approx(2 / 1024, rel=0.01),
        "this_process_gib": pytest.approx(3 / 1024, rel=0.01),
        "allocated_gib": pytest.approx(3 / 1024, rel=0.01),
        "reserved_unallocated_gib": 0.0,
    }
    assert meter.live_bytes == meter.peak_bytes == 3 * 2**20
    meter.add(3, 2**21)
    meter.drop(1)
    meter.drop(1)
    assert (meter.live_bytes, meter.peak_bytes) == (2**21, 5 * 2**20)


# --- previews under way


class Item:
    """A ``GenerateImageConfig``."""

    seed = 7

    def __init__(self, folder: Path) -> None:
        self.output_folder = str(folder)
        self.width, self.height, self.num_frames = 128, 128, 1

    def get_image_path(self, count: int) -> str:
        return f"{self.output_folder}/{count}.jpg"

    def save_image_atomic(self, image: str, count: int = 0) -> None:
        Path(self.get_image_path(count)).write_text(image, encoding="utf-8")

    def log_image(self, image: str, count: int = 0) -> None:
        assert image


class Model:
    """A newer model: a preview takes a GiB for each 128 x 128 pixels, above the two it lies on the card with."""

    network = None
    device_state = None

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.tried: list[int] = []

    def get_bucket_divisibility(self) -> int:
        return 16

    def generate_images(self, items: list[Item]) -> None:
        for count, item in enumerate(items):
            image = self.generate_single_image(None, item)
            item.save_image_atomic(image, count)
            item.log_image(image, count)

    def generate_single_image(self, pipeline: None, item: Item) -> str:
        self.tried.append(item.width)
        self.meter.add(1, 2**30 * item.width * item.height // 128**2)
        self.meter.drop(1)
        return "made"


def test_a_preview_that_has_no_room_is_made_smaller_without_being_tried_and_larger_again(
    tmp_path: Path, torch: dict[str, Any]
) -> None:
    meter = Meter(4 * 2**30, OutOfMemoryError)
    meter.add(0, 2 * 2**30)
    channel = Channel(str(tmp_path / "events"))
    previews = Previews(channel, Phases(channel, MeterGauge(meter)), tell([]))
    model = Model(meter)
    process = SimpleNamespace(sd=model, adapter=None, ema=None)

    def sample(step: int, budget_gib: float) -> list[tuple[str, int]]:
        def call(step: int) -> None:
            model.tried.clear()
            meter.budget_bytes = int(budget_gib * 2**30)
            model.generate_images([Item(tmp_path), Item(tmp_path)])

        previews.sample(process, call, False, step)
        told = [each for each in lines(tmp_path / "events") if each["event"] == "preview" and each["step"] == step]
        return [(each["outcome"], each["width"]) for each in told]

    assert sample(0, 4.0) == [("made", 128)] * 2
    assert sample(1, 2.5) == [("smaller", 80)] * 2
    assert model.tried == [80, 80]
    assert sample(2, 2.1) == [("skipped", 128)] * 2
    assert model.tried == []
    assert sample(3, 3.0) == [("made", 128)] * 2
    reasons = [each.get("reason") for each in lines(tmp_path / "events") if each.get("step") == 1]
    assert reasons == ["it needs 1 GiB more than lies on the card, 0.5 GiB can be had"] * 2


def test_an_error_of_another_kind_in_a_preview_is_passed_on(tmp_path: Path, torch: dict[str, Any]) -> None:
    meter = Meter(4 * 2**30, ValueError)
    channel = Channel(str(tmp_path / "events"))
    previews = Previews(channel, Phases(channel, MeterGauge(meter)), tell([]))
    process = SimpleNamespace(sd=Model(meter), adapter=None, ema=None)
    meter.add(0, 2**32)
    with pytest.raises(ValueError):
        previews.sample(process, lambda step: process.sd.generate_images([Item(tmp_path)]), False, 0)


# --- the largest bucket


class Loaded:
    """A batch as the data loader gives it."""

    def __init__(self, file_items: list[Any]) -> None:
        self.file_items = file_items

    def cleanup(self) -> None:
        self.file_items = []


class Dataset:
    """Files in buckets of one size each."""

    def __init__(self, *widths: int) -> None:
        self.file_list = [SimpleNamespace(crop_width=w, crop_height=64, num_frames=1, path=f"{w}.png") for w in widths]
        self.batch_indices = [[index] for index in range(len(widths))]

    def __getitem__(self, index: int) -> list[Any]:
        random.random()  # an image may be flipped
        return [self.file_list[member] for member in self.batch_indices[index]]


class Process:
    """As much of a training process as a dry step needs."""

    device_torch = "cpu"
    data_loader_reg = None

    def __init__(self, error: Exception | None = None, hooks: Any = None) -> None:
        self.error = error
        self.tried: list[str] = []
        self.additional_logs = {"loss/img": 1.0}
        self.sd = SimpleNamespace(is_multistage=False)
        weight = SimpleNamespace(numel=lambda: 10, _post_accumulate_grad_hooks=hooks)
        self.gradients = 0

        class AdamW:
            def __init__(self, owner: Process) -> None:
                self.state: dict[Any, Any] = {}
                self.param_groups = [{"params": [weight]}]
                self.owner = owner

            def zero_grad(self, set_to_none: bool = False) -> None:
                assert set_to_none
                self.owner.gradients = 0

        self.optimizer = AdamW(self)
        datasets = SimpleNamespace(datasets=[Dataset(64, 128), Dataset(256, 96)])
        self.data_loader = SimpleNamespace(dataset=datasets, collate_fn=Loaded)

    def train_single_accumulation(self, batch: Loaded) -> None:
        self.tried += [item.path for item in batch.file_items]
        self.gradients += 1
        self.additional_logs = {"loss/img": 2.0}
        if self.error is not None:
            raise self.error


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands for torch where only its random numbers and one allocation are asked for."""
    seen: dict[str, Any] = {"random": "as drawn"}
    fake = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: False),
        get_rng_state=lambda: seen["random"],
        set_rng_state=lambda state: seen.update(random=state),
        manual_seed=lambda seed: seen.update(random=seed),
        empty=lambda size, dtype, device: seen.update(room=size),
        uint8="uint8",
    )
    monkeypatch.setitem(sys.modules, "torch", fake)  # type: ignore[arg-type]
    return seen


def tell(told: list[dict[str, Any]]) -> Any:
    def out_of_memory(error: BaseException, doing: str, **more: Any) -> str | None:
        if not is_out_of_memory(error):
            return None
        told.append({"doing": doing, **more})
        return str(error)

    return out_of_memory


def test_the_dry_step_takes_the_largest_bucket_and_leaves_nothing(tmp_path: Path, torch: dict[str, Any]) -> None:
    process = Process()
    before = random.getstate()
    LargestBucket(Channel(str(tmp_path / "events")), "stop", tell([])).try_out(process)
    assert process.tried == ["256.png"]
    assert (process.gradients, process.additional_logs, torch["random"]) == (0, {"loss/img": 1.0}, "as drawn")
    assert random.getstate() == before
    assert torch["room"] == 80  # two numbers of four bytes for each of ten parameters
    assert lines(tmp_path / "events")[0]["text"] == "the largest bucket fits: 256x64x1, batch of 1"


def test_a_largest_bucket_that_does_not_fit_ends_the_run_or_is_told(tmp_path: Path, torch: dict[str, Any]) -> None:
    channel = Channel(str(tmp_path / "events"))
    told: list[dict[str, Any]] = []
    process = Process(OutOfMemoryError(MESSAGE))
    with pytest.raises(DoesNotFit, match=r"256x64x1, batch of 1\) does not fit. CUDA out of memory") as caught:
        LargestBucket(channel, "stop", tell(told)).try_out(process)
    assert not isinstance(caught.value, RuntimeError) and caught.value.__context__ is None
    LargestBucket(channel, "continue", tell(told)).try_out(process)
    assert told == [{"doing": "forward", "bucket": (256, 64, 1), "files": ("256.png",)}] * 2
    assert process.gradients == 0
    assert "does not fit" in lines(tmp_path / "events")[0]["text"]


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (Process(hooks={1: print}), "this optimizer works inside the backward pass"),
        (Process(ValueError("broken")), "ValueError: broken"),
        (SimpleNamespace(), "this AI Toolkit has no train_single_accumulation"),
    ],
)
def test_why_no_dry_step_was_made_is_said(tmp_path: Path, torch: dict[str, Any], process: Any, why: str) -> None:
    LargestBucket(Channel(str(tmp_path / "events")), "stop", tell([])).try_out(process)
    assert lines(tmp_path / "events")[0]["text"] == f"the largest bucket was not tried first: {why}"


def test_a_run_without_it_makes_no_dry_step(tmp_path: Path, torch: dict[str, Any]) -> None:
    process = Process()
    LargestBucket(Channel(str(tmp_path / "events")), "off", tell([])).try_out(process)
    assert process.tried == [] and lines(tmp_path / "events") == []


# --- what a failed pass leaves


def test_only_what_was_merged_is_taken_out_of_the_weights() -> None:
    class Module:
        def __init__(self, fails: bool = False) -> None:
            self.weight, self.fails = 0.0, fails

        def merge_in(self, merge_weight: float = 1.0) -> None:
            if self.fails:
                raise OutOfMemoryError(MESSAGE)
            self.weight += merge_weight

    modules = [Module(), Module(), Module(fails=True), Module()]
    merges = Merges()
    merges.watch(SimpleNamespace(get_all_modules=lambda: modules))
    with pytest.raises(OutOfMemoryError):
        for module in modules:
            module.merge_in(0.75)
    merges.take_out()
    merges.take_out()
    assert [module.weight for module in modules] == [0.0, 0.0, 0.0, 0.0]


# --- started by path


def test_started_by_path_it_runs_run_py_as_if_it_had_been_started_itself(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(
        "import json, os, sys\n"
        "import channel\n"  # a name of the probe's own folder belongs to AI Toolkit
        "print(json.dumps([__name__, os.getcwd(), sys.argv, sys.path[0], channel.mine]))\n"
        "raise SystemExit(3)\n",
        encoding="utf-8",
    )
    (tmp_path / "channel.py").write_text("mine = True\n", encoding="utf-8")
    command = [sys.executable, str(PROBE), "--toolkit", ".", "--job", "job.yaml", "--events", "events.jsonl"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    folder = str(tmp_path.resolve())
    assert json.loads(done.stdout) == ["__main__", folder, [f"{folder}/run.py", f"{folder}/job.yaml"], folder, True]
    note, finished = read_events(tmp_path / "events.jsonl")
    assert note.keys["text"].startswith("BaseSDTrainProcess was never imported")
    assert (finished.event, finished.keys["how"]) == ("finished", "failed")


def test_a_folder_without_run_py_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, str(PROBE), "--toolkit", str(tmp_path), "--job", "j", "--events", str(tmp_path / "e")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "no run.py in" in done.stderr) == (2, True)


def test_only_phases_that_a_run_goes_through_can_be_its_end() -> None:
    call = ["--toolkit", "a", "--job", "b", "--events", "c", "--until"]
    assert parser().parse_args([*call, "cache"]).until == "cache"
    with pytest.raises(SystemExit):
        parser().parse_args([*call, "save"])


def test_a_stop_that_was_lost_before_training_is_carried_out_at_the_next_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_module._thread, "interrupt_main", lambda: None)  # caught by whatever was running
    control = Control(lambda text: None)
    control.check()
    control.ask("stop")
    with pytest.raises(KeyboardInterrupt):
        control.check()
    control.training = True
    control.check()
    assert control.take() == ["stop"]
