"""AI Toolkit is found where the settings say, known by its files, and its Python is tried before it is used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headroom import places
from headroom.report.wording import LANGUAGES, words
from headroom.run.locate import (
    FOLDER,
    PYTHON,
    LocateError,
    Toolkit,
    check_python,
    find_python,
    find_toolkit,
    recognise,
)

COMMIT = "27a03a91f23eb1b757d5ec2e80ee3e129cfcc350"
OTHER = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (FOLDER, PYTHON, "HEADROOM_COMFYUI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(places, "user_data", lambda: tmp_path / "data" / "headroom")


def make_toolkit(folder: Path, version: str = 'VERSION = "0.12.26"\n') -> Path:
    for name in ("toolkit", "jobs"):
        (folder / name).mkdir(parents=True)
    (folder / "run.py").write_text("raise SystemExit('never run by a search')\n", encoding="utf-8")
    (folder / "version.py").write_text(version, encoding="utf-8")
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def inside(folder: Path, environment: str) -> Path:
    return folder / environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def refused(error: pytest.ExceptionInfo[LocateError]) -> str:
    """The error's key; it has words in both languages."""
    sentence = error.value.sentence
    assert len({words(sentence, lang) for lang in LANGUAGES}) == len(LANGUAGES)
    return sentence.key.removeprefix("locate.")


def test_the_environment_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_toolkit(tmp_path / "AI Toolkit ä")
    monkeypatch.setenv(FOLDER, str(folder))
    assert find_toolkit() == Toolkit(folder, "setting", "0.12.26", None)


def test_a_home_folder_may_be_written_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_toolkit(tmp_path / "ai-toolkit")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv(FOLDER, "~/ai-toolkit")
    assert find_toolkit().folder == folder


def test_the_environment_goes_before_the_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = make_toolkit(tmp_path / "first"), make_toolkit(tmp_path / "second")
    settings = tmp_path / "headroom.json"
    settings.write_text(json.dumps({FOLDER: str(second)}), encoding="utf-8")
    assert find_toolkit(settings).folder == second
    monkeypatch.setenv(FOLDER, str(first))
    assert find_toolkit(settings).folder == first


def test_the_tools_place_is_searched_last(tmp_path: Path) -> None:
    folder = make_toolkit(tmp_path / "data" / "headroom" / "tools" / "ai-toolkit")
    assert find_toolkit() == Toolkit(folder, "tools", "0.12.26", None)


@pytest.mark.parametrize("settings", ["", "[]", "{", '{"HEADROOM_AI_TOOLKIT": 3}', '{"HEADROOM_AI_TOOLKIT": ""}'])
def test_found_nowhere_it_says_what_to_set(tmp_path: Path, settings: str) -> None:
    file = tmp_path / "headroom.json"
    file.write_text(settings, encoding="utf-8")
    for path in (None, file, tmp_path / "absent.json"):
        with pytest.raises(LocateError, match="`python -m headroom setup`, or set HEADROOM_AI_TOOLKIT to the folder") as error:
            find_toolkit(path)
        assert refused(error) == "none"


@pytest.mark.parametrize("missing", ["run.py", "version.py", "toolkit", "jobs"])
def test_a_wrong_setting_is_an_error_and_no_other_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    make_toolkit(tmp_path / "data" / "headroom" / "tools" / "ai-toolkit")
    folder = make_toolkit(tmp_path / "mine")
    assert recognise(folder)
    path = folder / missing
    path.unlink() if path.is_file() else path.rmdir()
    monkeypatch.setenv(FOLDER, str(folder))
    with pytest.raises(LocateError, match=f"{missing}/? is missing") as error:
        find_toolkit()
    assert refused(error) == "not_recognised"
    assert not recognise(folder)


def test_a_setting_may_name_no_folder_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "gone"))
    with pytest.raises(LocateError) as error:
        find_toolkit()
    assert refused(error) == "not_recognised"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("# 1\nVERSION = '0.9.1'", "0.9.1"),
        ("VERSION='x'; import os; os.abort()", "x"),
        ("", None),
        ("VERSION = 3", None),
    ],
)
def test_the_version_is_read_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, version: str | None
) -> None:
    monkeypatch.setenv(FOLDER, str(make_toolkit(tmp_path / "t", text)))
    assert find_toolkit().version == version


@pytest.mark.parametrize(
    ("files", "commit"),
    [
        ({".git/HEAD": f"{COMMIT}\n"}, COMMIT),
        ({".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": f"{COMMIT}\n"}, COMMIT),
        (
            {
                ".git/HEAD": "ref: refs/heads/main\n",
                ".git/packed-refs": f"# x\n{OTHER} refs/heads/x\n{COMMIT} refs/heads/main\n",
            },
            COMMIT,
        ),
        ({".git/HEAD": "ref: refs/heads/main\n"}, None),
        ({".git/HEAD": "ref: ../../../secret\n", "secret": "token"}, None),
        (
            {
                ".git": "gitdir: ../repo/.git/worktrees/t\n",
                "../repo/.git/worktrees/t/HEAD": "ref: refs/heads/main\n",
                "../repo/.git/worktrees/t/commondir": "../..\n",
                "../repo/.git/refs/heads/main": f"{COMMIT}\n",
            },
            COMMIT,
        ),
        ({}, None),
    ],
)
def test_the_commit_is_read_from_gits_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], commit: str | None
) -> None:
    folder = make_toolkit(tmp_path / "t")
    for name, text in files.items():
        write(folder / name, text)
    monkeypatch.setenv(FOLDER, str(folder))
    assert find_toolkit().commit == commit


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_the_commit_is_gits_own_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_toolkit(tmp_path / "t")

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "x")
    monkeypatch.setenv(FOLDER, str(folder))
    assert find_toolkit().commit == git("rev-parse", "HEAD")
    git("pack-refs", "--all")
    assert find_toolkit().commit == git("rev-parse", "HEAD")


def test_its_python_is_that_of_its_virtual_environment(tmp_path: Path) -> None:
    toolkit = Toolkit(make_toolkit(tmp_path / "t"), "setting", None, None)
    write(inside(toolkit.folder, "venv"), "")
    assert find_python(toolkit) == inside(toolkit.folder, "venv")
    write(inside(toolkit.folder, ".venv"), "")
    assert find_python(toolkit) == inside(toolkit.folder, ".venv")  # as AI Toolkit's own UI chooses


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_linked_python_keeps_its_environment(tmp_path: Path) -> None:
    toolkit = Toolkit(make_toolkit(tmp_path / "t"), "setting", None, None)
    python = inside(toolkit.folder, "venv")
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert find_python(toolkit) == python


def test_a_python_that_is_set_goes_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit = Toolkit(make_toolkit(tmp_path / "t"), "setting", None, None)
    write(inside(toolkit.folder, "venv"), "")
    settings = tmp_path / "headroom.json"
    settings.write_text(json.dumps({PYTHON: sys.executable}), encoding="utf-8")
    assert find_python(toolkit, settings) == Path(sys.executable)
    monkeypatch.setenv(PYTHON, str(tmp_path / "gone"))
    with pytest.raises(LocateError, match=r"HEADROOM_AI_TOOLKIT_PYTHON is .*gone") as error:
        find_python(toolkit, settings)
    assert refused(error) == "no_such_python"


def test_without_a_python_it_says_where_it_looked(tmp_path: Path) -> None:
    toolkit = Toolkit(make_toolkit(tmp_path / "t"), "setting", None, None)
    with pytest.raises(LocateError, match=r"looked for: \.venv, venv") as error:
        find_python(toolkit)
    assert refused(error) == "no_python"


@pytest.fixture
def here(tmp_path: Path) -> Toolkit:
    return Toolkit(make_toolkit(tmp_path / "t"), "setting", None, None)


def check(toolkit: Toolkit, torch: str, seconds: float = 60.0) -> object:
    """Ask this Python, started where a module called torch lies."""
    write(toolkit.folder / "torch.py", torch)
    return check_python(Path(sys.executable), toolkit, seconds)


def test_a_python_tells_its_torch(here: Toolkit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(here.folder / "foreign"))
    write(here.folder / "foreign" / "json.py", "raise SystemExit('of another Python')")
    said = "import types\nprint('chatter on import')\n__version__ = '2.9.1+cu128'\nversion = types.SimpleNamespace(cuda='12.8')\n"
    found = check(here, said)
    assert (found.path, found.torch, found.cuda) == (Path(sys.executable), "2.9.1+cu128", "12.8")
    assert found.version == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    ("torch", "said"),
    [
        (
            "raise ImportError('libcudart.so.12: cannot open\\nsecond line')",
            "ImportError: libcudart.so.12: cannot open",
        ),
        ("raise ModuleNotFoundError(\"No module named 'torch'\")", "No module named 'torch'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_python_without_a_working_torch_is_refused_with_its_own_words(here: Toolkit, torch: str, said: str) -> None:
    with pytest.raises(LocateError) as error:
        check(here, torch)
    assert refused(error) == "no_torch"
    assert said in str(error.value) and "second line" not in str(error.value)


def test_a_python_that_dies_is_refused(here: Toolkit) -> None:
    with pytest.raises(LocateError, match="exit code") as error:
        check(here, "import os; os._exit(9)")
    assert refused(error) == "not_started"


def test_a_python_that_hangs_is_ended(here: Toolkit) -> None:
    with pytest.raises(LocateError, match="within 1 s") as error:
        check(here, "import time; time.sleep(600)", seconds=1.0)
    assert refused(error) == "slow"


def test_what_is_no_program_is_refused(here: Toolkit) -> None:
    text = here.folder / "python.txt"
    text.write_text("not a program", encoding="utf-8")
    with pytest.raises(LocateError) as error:
        check_python(text, here)
    assert refused(error) == "not_started"


def test_the_command_line_finds_the_settings_of_comfyui(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(places, "_PACK", tmp_path / "headroom")
    assert places.settings_file() is None
    monkeypatch.setattr(places, "_PACK", tmp_path / "ComfyUI" / "custom_nodes" / "headroom")
    assert places.settings_file() == tmp_path / "ComfyUI" / "user" / "headroom.json"
    monkeypatch.setenv("HEADROOM_COMFYUI", str(tmp_path / "Other"))
    assert places.settings_file() == tmp_path / "Other" / "user" / "headroom.json"


USER_DATA = places.user_data


def test_user_data_lies_where_the_platform_keeps_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("LOCALAPPDATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert USER_DATA("win32") == tmp_path / "AppData" / "Local" / "headroom"
    assert USER_DATA("darwin") == tmp_path / "Library" / "Application Support" / "headroom"
    assert USER_DATA("linux") == tmp_path / ".local" / "share" / "headroom"
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    assert USER_DATA("win32") == tmp_path / "local" / "headroom"
    assert USER_DATA("linux") == tmp_path / ".local" / "share" / "headroom"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert USER_DATA("linux") == tmp_path / "xdg" / "headroom"


REAL = {name: os.environ.get(name, "") for name in (FOLDER, PYTHON)}  # the fixture above unsets them


@pytest.mark.ai_toolkit
@pytest.mark.skipif(not all(REAL.values()), reason="AI Toolkit; set HEADROOM_AI_TOOLKIT and HEADROOM_AI_TOOLKIT_PYTHON")
def test_a_real_ai_toolkit_is_found_and_its_torch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in REAL.items():
        monkeypatch.setenv(name, value)
    toolkit = find_toolkit()
    found = check_python(find_python(toolkit), toolkit)
    assert toolkit.version and toolkit.version[0].isdigit()
    assert found.torch[0].isdigit() and found.version.startswith("3.")
