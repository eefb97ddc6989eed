"""What a page may choose as AI Toolkit: one that is there and has its own Python, and never what a page put there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from headroom.report.wording import LANGUAGES, words
from headroom.run.choosing import chosen
from headroom.run.locate import LocateError

posix = pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
BIN = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def toolkit(folder: Path, environment: str | None = "venv") -> Path:
    for name in ("toolkit", "jobs"):
        (folder / name).mkdir(parents=True)
    write(folder / "run.py")
    write(folder / "version.py", 'VERSION = "0.12.26"')
    if environment:
        write(folder / environment / "pyvenv.cfg", "home = /usr/bin")
        write(folder.joinpath(environment, *BIN))
    return folder


def refused(text: str, *places: Path) -> str:
    with pytest.raises(LocateError) as error:
        chosen(text, places)
    assert len({words(error.value.sentence, lang) for lang in LANGUAGES}) == len(LANGUAGES)
    return error.value.sentence.key.removeprefix("choose.")


@pytest.mark.parametrize("environment", [".venv", "venv"])
def test_an_ai_toolkit_with_its_own_python_is_taken(tmp_path: Path, environment: str) -> None:
    folder = toolkit(tmp_path / "ai toolkit", environment)
    assert chosen(f"  {folder}{os.sep} \n", [tmp_path / "input"]) == folder.resolve()


@pytest.mark.parametrize("name", ["run.py", "version.py", "toolkit", "jobs"])
def test_any_other_folder_is_not(tmp_path: Path, name: str) -> None:
    folder = toolkit(tmp_path / "t")
    path = folder / name
    path.unlink() if path.is_file() else path.rmdir()
    assert refused(str(folder)) == "not_recognised"
    assert refused(str(tmp_path / "gone")) == "not_recognised"
    assert refused(str(folder / "version.py")) == "not_recognised"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "ai-toolkit",
        "../ai-toolkit",
        "//host/share/ai-toolkit",
        "\\\\host\\share\\t",
        "/a\nb",
        "/" + "a" * 2000,
    ],
)
def test_only_a_whole_path_on_this_machine_is_one(text: str) -> None:
    assert refused(text) == "no_path"


@pytest.mark.parametrize("text", ["/a\x00b", "~nosuchuser0/x"])
def test_names_that_cannot_be_are_an_answer_too(text: str) -> None:
    assert refused(text) in ("no_path", "unreadable", "not_recognised")


def test_without_a_python_inside_it_is_refused(tmp_path: Path) -> None:
    assert refused(str(toolkit(tmp_path / "t", None))) == "no_python"


def test_a_python_that_is_no_virtual_environment_is_refused(tmp_path: Path) -> None:
    folder = toolkit(tmp_path / "t")
    (folder / "venv" / "pyvenv.cfg").unlink()
    assert refused(str(folder)) == "no_python"


@posix
def test_the_python_of_an_environment_may_be_a_link_as_python_makes_it(tmp_path: Path) -> None:
    folder = toolkit(tmp_path / "t")
    python = folder.joinpath("venv", *BIN)
    python.unlink()
    python.symlink_to(sys.executable)
    assert chosen(str(folder), [tmp_path / "input"]) == folder.resolve()


@posix
def test_an_environment_elsewhere_is_not_inside(tmp_path: Path) -> None:
    folder, other = toolkit(tmp_path / "t"), toolkit(tmp_path / "other")
    (folder / "venv").rename(tmp_path / "away")
    (folder / "venv").symlink_to(other / "venv")
    assert refused(str(folder)) == "no_python"


@posix
def test_a_linked_folder_is_judged_where_it_leads_and_kept_as_that(tmp_path: Path) -> None:
    folder = toolkit(tmp_path / "real")
    (tmp_path / "link").symlink_to(folder)
    assert chosen(str(tmp_path / "link"), []) == folder.resolve()


def test_what_lies_where_a_page_writes_is_refused(tmp_path: Path) -> None:
    uploaded = tmp_path / "input"
    assert refused(str(toolkit(uploaded / "a" / "b")), tmp_path / "output", uploaded) == "written_by_pages"
    roundabout = tmp_path / "models" / ".." / "input" / "a" / "b"
    (tmp_path / "models").mkdir()
    assert refused(str(roundabout), uploaded) == "written_by_pages"


@posix
@pytest.mark.parametrize("part", ["", "venv/bin/python", "run.py", "toolkit"])
def test_a_link_into_such_a_folder_is_refused(tmp_path: Path, part: str) -> None:
    uploaded, folder = toolkit(tmp_path / "input" / "t"), tmp_path / "t"
    if part:
        toolkit(folder)
        there = folder / part
        there.rmdir() if there.is_dir() else there.unlink()
        there.symlink_to(uploaded / part)
    else:
        folder.symlink_to(uploaded)
    assert refused(str(folder), tmp_path / "input") == "written_by_pages"


@posix
def test_such_a_folder_is_known_by_any_of_its_names(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    toolkit(volume / "t")
    (tmp_path / "input").symlink_to(volume)  # ComfyUI's input folder is itself a link
    assert refused(str(volume / "t"), tmp_path / "input") == "written_by_pages"


@posix
def test_links_in_a_circle_are_an_answer(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert refused(str(tmp_path / "a")) in ("unreadable", "not_recognised")
