"""``python -m headroom train`` and ``runs``: what scripts and people rely on, with a real process in AI Toolkit's place."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_programs import until

from headroom.contracts import Event
from headroom.run.store import Store
from headroom.verbs import train
from headroom.verbs.following import Following

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in speaks POSIX signals")
ROOT = Path(__file__).resolve().parent.parent
STANDIN = Path(__file__).parent / "standins" / "probe.py"
# The command line as it is, but for the probe that it starts and the GPUs of the machine.
PROGRAM = f"""
import sys
from dataclasses import replace
from pathlib import Path
from headroom.cli import main
from headroom.memory.nvml import GpuReading
from headroom.verbs import train
engine_here = train.engine_here
train.engine_here = lambda *given, **more: replace(
    engine_here(*given, **more), probe=Path({str(STANDIN)!r}), gpus=GpuReading)
sys.exit(main(sys.argv[1:]))
"""
JOB = """\
job: extension
config:
  name: cat  # mine
  process:
    - type: sd_trainer
      training_folder: {output}
      train: {{steps: 5, batch_size: 4}}
      model: {{name_or_path: none/at-all, arch: sd1}}
      standin: {how}
"""


class Place:
    """A machine with an AI Toolkit, and somebody who calls the command line there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder, folder / "output"
        self.toolkit = folder / "ai-toolkit"
        for name in ("toolkit", "jobs"):
            (self.toolkit / name).mkdir(parents=True)
        for name in ("run.py", "version.py"):
            (self.toolkit / name).touch()
        self.settings = {
            "HEADROOM_AI_TOOLKIT": str(self.toolkit),
            "HEADROOM_AI_TOOLKIT_PYTHON": sys.executable,
            "HEADROOM_RUNS": str(folder / "runs"),
        }

    def job(self, how: str = "finish") -> Path:
        """A job file of the user's own."""
        path = self.folder / "job.yaml"
        path.write_text(JOB.format(how=how, output=self.output.as_posix()), encoding="utf-8")
        return path

    def start(self, *arguments: object, **settings: str) -> subprocess.Popen[bytes]:
        """Begin a call in a session of its own, as a terminal gives one."""
        unset = ("HEADROOM_KEEP_RUNS", "HEADROOM_COMFYUI", "CUDA_VISIBLE_DEVICES")
        env = {name: value for name, value in os.environ.items() if name not in unset} | self.settings | settings
        command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
        return subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def call(self, *arguments: object, **settings: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a call."""
        program = self.start(*arguments, **settings)
        out, errors = program.communicate(timeout=60)
        return program.returncode, out.decode(), errors.decode()

    def train(self, how: str = "finish", *arguments: object) -> tuple[int, dict[str, Any]]:
        """Exit code and JSON of a training."""
        code, out, errors = self.call("train", "--json", "--job", self.job(how), "--lang", "en", *arguments)
        assert out, errors
        return code, json.loads(out)

    def runs(self) -> list[Path]:
        """The run folders, oldest first."""
        return [run.folder for run in Store(self.folder / "runs").list()]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    yield Place(tmp_path)
    assert not processes_of(tmp_path)


def processes_of(folder: Path) -> list[bytes]:
    """The commands that run and name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            found += [command for command in [path.read_bytes()] if str(folder).encode() in command]
    return found


def arguments_of(run: Path) -> list[str]:
    """What the probe was started with."""
    lines = map(json.loads, (run / "events.jsonl").read_text(encoding="utf-8").splitlines())
    told = next(line["text"] for line in lines if line["event"] == "note")
    return json.loads(told)["argv"]


# ---- the end of a run


def test_a_finished_run_is_one_object_and_exits_with_0(place: Place) -> None:
    code, answer = place.train()
    assert code == 0
    promised = "outcome engine rehearsal checkpoint attempts steps peaks previews"
    assert answer.keys() >= set(promised.split())
    assert (answer["outcome"], answer["engine"], answer["rehearsal"]) == ("finished", "ai-toolkit", False)
    assert answer["checkpoint"] == str(place.output / "cat" / "cat.safetensors")
    assert answer["steps"] == {"done": 5, "total": 5, "skipped_batches": 0}
    assert answer["peaks"]["train"] == {"vram_gib": 3.0, "host_ram_gib": 2.5}
    assert answer["previews"] == {"made": 0, "smaller": 0, "skipped": 0}
    [attempt] = answer["attempts"]
    assert attempt == {
        "run": str(place.runs()[0]), "outcome": "finished", "until": None, "diagnosis": None, "changes": []
    }  # fmt: skip


def test_people_see_it_go_on_and_where_the_results_lie(place: Place) -> None:
    code, out, errors = place.call("train", "--job", place.job(), "--lang", "en")
    assert code == 0
    for told in ("Loading the model", "Training\n", "Step 1 of 5", "s a step", "Step 5 of 5", "Checkpoint at step 2"):
        assert told in errors, told
    for told in ("Finished: 5 of 5 steps.", f"LoRA: {place.output / 'cat' / 'cat.safetensors'}", str(place.runs()[0])):
        assert told in out, told
    _, chinese, _ = place.call("train", "--job", place.job(), "--lang", "zh")
    assert "已完成" in chinese and "Finished" not in chinese


def test_the_users_own_file_is_run_as_it_is_and_nothing_else_is_written(place: Place) -> None:
    job = place.job()
    before = job.read_text(encoding="utf-8")
    place.train()
    assert job.read_text(encoding="utf-8") == before
    assert (place.runs()[0] / "job.yaml").read_text(encoding="utf-8") == before
    assert {path.name for path in place.folder.iterdir()} == {"ai-toolkit", "job.yaml", "output", "runs"}


def test_a_failed_run_exits_with_1_and_brings_its_diagnosis(place: Place) -> None:
    code, answer = place.train("load_out_of_memory")
    [attempt] = answer["attempts"]
    assert (code, answer["outcome"], attempt["outcome"]) == (1, "failed", "failed")
    found = attempt["diagnosis"]
    assert (found["memory_failure"], found["cause"], found["stage"]) == (True, "vram", "load")
    assert found["changes"] and found["changes"][0].keys() >= {"path", "old", "new", "reason", "price", "where"}
    code, out, _ = place.call("train", "--job", place.job("load_out_of_memory"), "--lang", "en")
    assert code == 1 and "ran out of memory" in out and found["changes"][0]["path"] in out
    assert f'diagnose --run "{place.runs()[-1]}"' in out


def test_until_a_phase_is_enough_when_it_is_reached(place: Place) -> None:
    code, answer = place.train("finish", "--until", "load")
    assert (code, answer["outcome"], answer["checkpoint"]) == (0, "finished", None)
    assert answer["attempts"][0]["until"] == "load"


def test_the_limits_reach_the_probe(place: Place) -> None:
    place.train("finish", "--vram", "0.035", "--largest-bucket", "continue")
    given = arguments_of(place.runs()[0])
    assert given[given.index("--vram-gib") + 1] == "0.035"
    assert given[given.index("--largest-bucket") + 1] == "continue"
    place.train("finish", "--force")
    given = arguments_of(place.runs()[1])
    assert "--vram-gib" not in given and given[given.index("--largest-bucket") + 1] == "stop"


# ---- again


def test_the_same_work_is_not_done_twice_unless_it_is_forced_in_another_folder(place: Place) -> None:
    _, first = place.train()
    code, again = place.train()
    assert (code, again["earlier"], again["attempts"][0]["run"]) == (0, True, first["attempts"][0]["run"])
    made = Path(first["checkpoint"]).stat()
    code, forced = place.train("finish", "--force")
    assert (code, forced["earlier"]) == (0, False)
    assert Path(forced["checkpoint"]).parent == place.output / "cat@2"
    assert Path(first["checkpoint"]).stat() == made
    [change] = forced["attempts"][0]["changes"]
    assert (change["path"], change["new"]) == ("name", "cat@2")


def test_a_fresh_start_leaves_what_is_there_and_a_first_one_needs_no_other_folder(place: Place) -> None:
    _, first = place.train("fewer_steps", "--resume", "fresh")
    assert first["attempts"][0]["changes"] == []
    place.train("fewer_steps", "--resume", "fresh")
    _, third = place.train("finish", "--resume", "fresh")
    assert sorted(path.name for path in place.output.iterdir()) == ["cat", "cat@2", "cat@3"]
    assert Path(third["checkpoint"]).parent.name == "cat@3"


@pytest.mark.parametrize("there", ["folder", "run"])
def test_resume_fail_does_not_run_where_something_is_there(place: Place, there: str) -> None:
    if there == "folder":
        (place.output / "cat").mkdir(parents=True)
    else:
        place.train("fewer_steps")
        (place.output / "cat").rename(place.output / "moved")
    before = place.runs()
    code, out, errors = place.call("train", "--job", place.job(), "--resume", "fail", "--lang", "en")
    assert (code, out) == (2, "") and "--resume fresh" in errors and len(errors.splitlines()) == 1
    assert place.runs() == before


# ---- Ctrl-C


def waiting(program: subprocess.Popen[bytes], place: Place) -> None:
    def waits() -> bool:
        assert program.poll() is None
        return any("waiting" in log.read_text(encoding="utf-8") for log in (place.folder / "runs").glob("*/*/log.txt"))

    until(waits, 30)


def test_ctrl_c_ends_the_run_and_keeps_what_it_had(place: Place) -> None:
    program = place.start("train", "--json", "--job", place.job("wait"))
    waiting(program, place)
    os.killpg(program.pid, signal.SIGINT)
    out, _ = program.communicate(timeout=30)
    answer = json.loads(out)
    assert (program.returncode, answer["outcome"]) == (130, "cancelled")
    assert answer["checkpoint"] == str(place.output / "cat" / "cat_000000002.safetensors")
    [run] = Store(place.folder / "runs").list()
    assert run.state == "cancelled"


def test_a_cancelled_run_says_whether_the_job_goes_on_from_it(place: Place) -> None:
    for resume in ("resume", "fresh"):
        program = place.start("train", "--job", place.job("wait"), "--lang", "en", "--resume", resume)
        waiting(program, place)
        os.killpg(program.pid, signal.SIGINT)
        out = program.communicate(timeout=30)[0].decode()
        assert "Cancelled after step" in out and ("goes on from that checkpoint" in out) is (resume == "resume")
        for log in (place.folder / "runs").glob("*/*/log.txt"):
            log.unlink()


def test_a_second_ctrl_c_does_not_wait_for_a_trainer_that_will_not_end(place: Place) -> None:
    program = place.start("train", "--job", place.job("stubborn"), "--lang", "en")
    waiting(program, place)
    assert program.stderr is not None
    os.killpg(program.pid, signal.SIGINT)
    while b"Ending the run" not in program.stderr.readline():
        assert program.poll() is None
    os.killpg(program.pid, signal.SIGINT)
    program.communicate(timeout=30)
    assert program.returncode == 130
    until(lambda: not processes_of(place.folder), 30)


def test_a_run_that_went_on_without_its_command_line_is_judged_by_runs(place: Place) -> None:
    program = place.start("train", "--job", place.job("wait"), HEADROOM_KEEP_RUNS="1")
    waiting(program, place)
    program.kill()
    program.communicate(timeout=30)
    [run] = Store(place.folder / "runs").list()
    assert run.state == "running"
    with open(run.requests, "ab") as file:
        file.write(b"save\n")
    until(lambda: not processes_of(place.folder), 30)
    _, out, _ = place.call("runs", "--json")
    [told] = json.loads(out)["runs"]
    assert (told["state"], told["checkpoint"]) == ("finished", str(place.output / "cat" / "cat.safetensors"))


class Endless:
    """A run that does not end, while somebody presses Ctrl-C each time it is waited for."""

    def __init__(self) -> None:
        self.cancels = 0

    def wait(self, seconds: float) -> None:
        raise KeyboardInterrupt

    def read(self) -> list[Any]:
        return []

    def cancel(self) -> None:
        self.cancels += 1


def test_only_the_first_ctrl_c_cancels_and_the_second_leaves() -> None:
    endless, told = Endless(), io.StringIO()
    train._follow(endless, Following(told, "en"), shows=True)  # type: ignore[arg-type]
    assert endless.cancels == 1 and told.getvalue().count("Ctrl-C again") == 1


# ---- wrong calls


def one_line(errors: str) -> str:
    assert len(errors.strip().splitlines()) == 1, errors
    return errors


def test_no_ai_toolkit_names_setup(place: Place) -> None:
    place.settings |= {"HEADROOM_AI_TOOLKIT": "", "XDG_DATA_HOME": str(place.folder / "data")}
    code, out, errors = place.call("train", "--job", place.job(), "--lang", "en")
    assert (code, out) == (2, "") and "python -m headroom setup" in one_line(errors)
    assert place.runs() == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--vram", "0"), "--vram"),
        (("--vram", "much"), "size in GiB"),
        (("--host-ram", "nan"), "--host-ram"),
        (("--until", "sample"), "--until"),
        (("--engine", "server"), "--engine"),
        (("--resume", "maybe"), "--resume"),
    ],
)
def test_a_wrong_option_is_named(place: Place, arguments: tuple[str, ...], told: str) -> None:
    code, out, errors = place.call("train", "--job", place.job(), *arguments)
    assert (code, out) == (2, "") and told in one_line(errors)


@pytest.mark.parametrize(
    ("text", "told"), [(None, "job.yaml"), ("job: extension\nconfig: {name: x, process: 3}\n", "process")]
)
def test_a_job_that_cannot_be_used_is_named(place: Place, text: str | None, told: str) -> None:
    job = place.folder / "job.yaml"
    if text is not None:
        job.write_text(text, encoding="utf-8")
    code, out, errors = place.call("train", "--job", job, "--lang", "en")
    assert (code, out) == (2, "") and told in one_line(errors)


def test_a_store_that_cannot_be_written_is_named(place: Place) -> None:
    (place.folder / "runs").write_text("a file", encoding="utf-8")
    code, out, errors = place.call("train", "--job", place.job(), "--lang", "en")
    assert (code, out) == (2, "") and "runs" in one_line(errors)
    assert not place.output.exists()


# ---- following, for people


def steps(*seconds: float) -> list[Event]:
    keys = [{"step": number, "total": 40, "loss": 0.5, "seconds": each} for number, each in enumerate(seconds, 1)]
    return [Event(number, 0.0, "step", each) for number, each in enumerate(keys, 1)]


def told_of(*events: Event, lang: str = "en") -> str:
    text = io.StringIO()
    following = Following(text, lang)
    for event in events:
        following.show(event)
    return text.getvalue()


def test_speed_and_time_left_come_from_the_last_steps() -> None:
    text = told_of(*steps(*[100.0] * 2, *[2.0] * 38))
    assert "Step 40 of 40 · loss 0.5000 · 2.00 s a step · 0:00:00 left" in text.splitlines()[-1]
    assert "Step 34 of 40 · loss 0.5000 · 2.00 s a step · 0:00:12 left" in text
    assert len(text.splitlines()) == 21  # the first, and one for each twentieth where nothing can be repainted


def test_what_a_person_must_know_has_a_line_of_its_own() -> None:
    preview = {"step": 5, "index": 0, "path": "p.jpg", "width": 64, "height": 32, "frames": 1}
    text = told_of(
        Event(1, 0, "skipped", {"step": 4, "bucket": [64, 96, 1], "files": ["a.png"], "message": "no"}),
        Event(2, 0, "preview", {**preview, "outcome": "smaller", "reason": "CUDA out of memory"}),
        Event(3, 0, "preview", {**preview, "path": None, "outcome": "skipped", "reason": "CUDA out of memory\nmore"}),
        Event(4, 0, "out_of_memory", {"phase": "sample", "inside": "decode", "message": "CUDA out of memory. Tried"}),
        Event(5, 0, "download", {"name": "model.safetensors", "bytes": 2**30, "total": 2**30}),
        Event(6, 0, "something_new", {"step": None}),
    )
    assert text.splitlines() == [
        "Step 4 was skipped: out of memory at 64 x 96 (a.png)",
        "Preview at step 5, made smaller (64 x 32): p.jpg",
        "Preview at step 5 left out: CUDA out of memory",
        "Out of memory in a preview during training: CUDA out of memory. Tried",
        "Downloaded model.safetensors, 1 GiB",
    ]


def test_damaged_events_are_followed_too() -> None:
    kinds = [
        "phase",
        "step",
        "skipped",
        "out_of_memory",
        "preview",
        "checkpoint",
        "memory",
        "download",
        "note",
        "finished",
    ]
    for value in (None, "text", -1, [], {}):
        keys = {
            name: value
            for name in [
                "phase",
                "state",
                "step",
                "total",
                "loss",
                "seconds",
                "bucket",
                "files",
                "message",
                "path",
                "outcome",
            ]
        }
        told_of(*(Event(number, 0.0, kind, keys) for number, kind in enumerate(kinds)))
    told_of(*(Event(number, 0.0, kind, {}) for number, kind in enumerate(kinds)))
