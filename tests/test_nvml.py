"""What is read of the GPUs, on recorded answers of the driver: what it does not say is said to be unknown."""

from __future__ import annotations

import sys

import pytest
from recorded_nvml import RECORDINGS, play

from headroom.memory.nvml import Gpu, GpuReading, read_gpus
from headroom.report.wording import LANGUAGES, words


def read(monkeypatch: pytest.MonkeyPatch, recording: str) -> GpuReading:
    play(monkeypatch, recording)
    return read_gpus()


def notes(reading: GpuReading) -> list[str]:
    return [note.key.removeprefix("doctor.nvml.") for note in reading.notes]


def test_a_card_is_read_with_those_who_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, "normal")
    first, second = reading.gpus
    assert reading.driver == "570.133.20" and notes(reading) == []
    assert (first.index, first.uuid[:12], first.name) == (0, "GPU-5b2c8f0e", "NVIDIA GeForce RTX 4090")
    assert (first.total_gib, first.free_gib) == (pytest.approx(23.64), pytest.approx(8.64))
    assert [(p.pid, p.used_gib, p.name) for p in first.processes or ()] == [
        (4711, 14.0, "python3.11"),  # in both lists: once, with the larger size
        (4712, 0.25, "Xorg"),
    ]
    assert first.unshown_gib == pytest.approx(0.75)
    assert second.processes is not None and second.processes[0].name is None
    assert all(gpu.card is None for gpu in reading.gpus)


def test_on_windows_programs_are_named_but_not_their_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, "windows")
    (gpu,) = reading.gpus
    assert [(p.pid, p.used_gib, p.name) for p in gpu.processes or ()] == [(77, None, None), (5120, None, "python.exe")]
    assert gpu.unshown_gib is None
    assert notes(reading) == ["no_process_memory"]


def test_wsl_shows_no_programs_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, "wsl")
    assert reading.gpus[0].processes is None and reading.gpus[0].unshown_gib is None
    assert reading.gpus[0].free_gib == pytest.approx(9.0)
    assert notes(reading) == ["no_processes"]


def test_memory_that_no_visible_program_holds_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, "container")
    assert reading.gpus[0].processes == () and reading.gpus[0].unshown_gib == pytest.approx(68.0)
    assert notes(reading) == ["unshown"] and "68 GiB" in words(reading.notes[0])


def test_of_a_card_in_mig_mode_its_instances_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, "mig")
    large, small = reading.gpus
    assert large.uuid.startswith("MIG-") and large.card == "GPU-91d7a6c2-44ef-1b0a-9a3c-77e0c5d2be02"
    assert large.total_gib == pytest.approx(39.5) and small.total_gib == pytest.approx(9.75)
    assert [(p.pid, p.used_gib) for p in large.processes or ()] == [(31, 9.25)]
    assert notes(reading) == ["lost", "mig_empty"]
    assert "GPU 0, MIG 3" in words(reading.notes[0]) and "GPU 1" in words(reading.notes[1])


def test_a_card_that_shares_the_ram_has_no_size_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, "unified")
    assert (reading.gpus[0].total_gib, reading.gpus[0].free_gib, reading.gpus[0].unshown_gib) == (None, None, None)
    assert notes(reading) == ["no_memory"]


@pytest.mark.parametrize(
    ("recording", "note"),
    [
        ("no_driver", "no_driver"),
        ("not_loaded", "not_loaded"),
        ("mismatch", "mismatch"),
        ("no_permission", "no_permission"),
        ("unknown_error", "error"),
        ("gone_meanwhile", "not_loaded"),
    ],
)
def test_a_driver_that_does_not_answer_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, recording: str, note: str
) -> None:
    reading = read(monkeypatch, recording)
    assert (reading.driver, reading.gpus, notes(reading)) == (None, (), [note])


def test_a_driver_without_gpus_is_not_taken_for_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, "no_gpu")
    assert (reading.driver, reading.gpus, notes(reading)) == ("570.133.20", (), ["none"])


def test_a_lost_card_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, "one_lost")
    assert [gpu.index for gpu in reading.gpus] == [1]
    assert notes(reading) == ["lost", "lost"]


def test_a_driver_that_goes_away_between_two_cards_leaves_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, "gone_midway")
    assert [gpu.index for gpu in reading.gpus] == [0]
    assert notes(reading) == ["lost"] and "GPU 1" in words(reading.notes[0])


def test_without_the_package_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    reading = read_gpus()
    assert notes(reading) == ["no_package"] and reading.driver is None
    assert f"{sys.executable} -m pip install nvidia-ml-py" in words(reading.notes[0])


@pytest.mark.parametrize("recording", RECORDINGS)
def test_every_note_is_said_in_both_languages(monkeypatch: pytest.MonkeyPatch, recording: str) -> None:
    for note in read(monkeypatch, recording).notes:
        said = {words(note, lang) for lang in LANGUAGES}
        assert len(said) == len(LANGUAGES)


def test_the_names_of_older_packages_are_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, "container")
    pynvml = sys.modules["pynvml"]
    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", lambda: b"470.82")
    assert read_gpus().driver == "470.82"


def test_what_is_not_known_is_not_counted_as_nothing() -> None:
    assert Gpu(0, "u", "n", 24.0, 10.0, None).unshown_gib is None
