"""A node's names lead into the allowed folders and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from headroom_pack.nodes.errors import InputError
from headroom_pack.nodes.places import Places
from headroom_pack.nodes.sources import find, fingerprint, names


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for name in ("input/headroom", "runs/first", "toolkit/output/cat", "toolkit/output/empty", "samples", "outside"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("input/a.log", "input/b.txt", "input/job.yaml", "input/picture.png", "input/headroom/0f.log"):
        (tmp_path / name).write_text("x")
    for name in (
        "runs/first/log.txt",
        "toolkit/output/cat/log.txt",
        "samples/s.log",
        "samples/s.yaml",
        "outside/o.log",
    ):
        (tmp_path / name).write_text("x")
    return Places(tmp_path / "input", tmp_path / "runs", tmp_path / "toolkit" / "output", tmp_path / "samples")


def test_logs_are_offered_from_every_place(places: Places) -> None:
    assert set(names("log", places)) == {
        *("a.log", "b.txt", "headroom/0f.log", "AI Toolkit: cat", "run: first", "example: s.log")
    }


def test_jobs_are_offered_from_the_input_folder_and_the_samples(places: Places) -> None:
    assert names("job", places) == ["job.yaml", "example: s.yaml"]


def test_the_newest_file_comes_first(places: Places) -> None:
    os.utime(places.input / "a.log", (1, 1))
    assert names("log", places)[:2] == ["b.txt", "a.log"]


def test_every_name_that_is_offered_is_found(places: Places) -> None:
    for kind in ("log", "job"):
        for name in names(kind, places):
            assert find(name, kind, places).exists()


def test_a_folder_of_ai_toolkit_is_found_as_a_folder(places: Places) -> None:
    assert find("AI Toolkit: cat", "log", places) == (places.ai_toolkit_output / "cat").resolve()


@pytest.mark.parametrize(
    "name",
    [
        *("../outside/o.log", "headroom/../../outside/o.log", "..", ".", "", "/etc/passwd", "missing.log", "a\0b"),
        *("example: ../outside/o.log", "example: ", "run: ..", "AI Toolkit: ../..", "AI Toolkit: /etc", "x" * 5000),
        *("C:\\Windows\\win.ini", "\\\\server\\share\\x.log", "~/x.log"),
    ],
)
@pytest.mark.parametrize("kind", ["log", "job"])
def test_a_name_that_leads_out_or_nowhere_is_refused(name: str, kind: str, places: Places) -> None:
    with pytest.raises(InputError):
        find(name, kind, places)


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows that tests do not have")
def test_a_link_out_of_the_folder_is_refused_and_one_inside_followed(places: Places) -> None:
    (places.input / "out.log").symlink_to(places.input.parent / "outside" / "o.log")
    (places.input / "in.log").symlink_to(places.input / "a.log")
    with pytest.raises(InputError):
        find("out.log", "log", places)
    assert find("in.log", "log", places) == (places.input / "a.log").resolve()


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows that tests do not have")
def test_a_run_folder_whose_log_is_a_link_out_is_refused(places: Places) -> None:
    (places.runs / "second").mkdir()
    (places.runs / "second" / "log.txt").symlink_to(places.input.parent / "outside" / "o.log")
    with pytest.raises(InputError):
        find("run: second", "log", places)


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows that tests do not have")
def test_an_input_folder_that_is_itself_a_link_works(places: Places, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(places.input, target_is_directory=True)
    through = Places(tmp_path / "linked", places.runs, None, places.samples)
    assert find("a.log", "log", through) == (places.input / "a.log").resolve()


def test_without_ai_toolkit_its_folders_are_neither_offered_nor_found(places: Places) -> None:
    without = Places(places.input, places.runs, None, places.samples)
    assert not [name for name in names("log", without) if name.startswith("AI Toolkit")]
    with pytest.raises(InputError):
        find("AI Toolkit: cat", "log", without)


def test_a_fingerprint_changes_with_the_file_behind_the_name(places: Places) -> None:
    before = fingerprint("a.log", "log", places)
    assert before == fingerprint("a.log", "log", places)
    (places.input / "a.log").write_text("longer")
    assert before != fingerprint("a.log", "log", places)


def test_a_fingerprint_of_a_folder_changes_with_its_log(places: Places) -> None:
    before = fingerprint("run: first", "log", places)
    (places.runs / "first" / "log.txt").write_text("longer")
    assert before != fingerprint("run: first", "log", places)


def test_a_name_that_is_not_known_yet_counts_as_changed(places: Places) -> None:
    assert fingerprint(None, "log", places) != fingerprint(None, "log", places)
