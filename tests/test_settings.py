"""The settings file is written whole, for its owner only, and never over what it does not understand."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headroom import places, settings
from headroom.report.wording import LANGUAGES, words
from headroom.settings import HF_TOKEN, DamagedSettings, SettingsError, hugging_face_token, set_aside, write

TOKEN = "hf_" + "aB3" * 11
posix = pytest.mark.skipif(os.name == "nt", reason="file modes and links as on Linux and macOS")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADROOM_AI_TOOLKIT", HF_TOKEN):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "user" / "headroom.json"


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_what_is_written_is_what_the_one_reader_reads(file: Path) -> None:
    write(file, "HEADROOM_AI_TOOLKIT", "/workspace/ai-toolkit 文")
    assert places.setting("HEADROOM_AI_TOOLKIT", file) == "/workspace/ai-toolkit 文"
    write(file, "HEADROOM_AI_TOOLKIT", None)
    assert places.setting("HEADROOM_AI_TOOLKIT", file) is None
    assert json.loads(file.read_text(encoding="utf-8")) == {}


def test_other_settings_stay_also_those_that_headroom_does_not_know(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('{"HEADROOM_RUNS": "/data", "later": {"deep": [1, 2]}, "HF_TOKEN": "hf_old"}', encoding="utf-8")
    write(file, HF_TOKEN, TOKEN)
    assert json.loads(file.read_text()) == {"HEADROOM_RUNS": "/data", "later": {"deep": [1, 2]}, "HF_TOKEN": TOKEN}
    write(file, HF_TOKEN, None)
    assert json.loads(file.read_text()) == {"HEADROOM_RUNS": "/data", "later": {"deep": [1, 2]}}


def test_removing_what_is_not_set_makes_no_file(file: Path) -> None:
    write(file, HF_TOKEN, None)
    assert not file.exists()


@posix
def test_only_its_owner_can_read_it_whatever_it_was_before(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("{}")
    file.chmod(0o644)
    write(file, HF_TOKEN, TOKEN)
    assert mode(file) == 0o600


@posix
def test_it_is_closed_to_others_before_anything_is_in_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    real = os.fdopen

    def opened(descriptor: int, *arguments: object, **options: object) -> object:
        found = os.fstat(descriptor)
        seen.append((stat.S_IMODE(found.st_mode), found.st_size))
        return real(descriptor, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(settings.os, "fdopen", opened)
    write(file, HF_TOKEN, TOKEN)
    assert seen == [(0o600, 0)]


@pytest.mark.parametrize("damage", [b'{"HF_TOKEN": "hf_', b"[]", b'"text"', b"\xff\xfe{", b"[" * 100_000])
def test_a_damaged_file_is_never_written_over(file: Path, damage: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(damage)
    for value in (TOKEN, None):
        with pytest.raises(DamagedSettings, match="nothing was changed"):
            write(file, HF_TOKEN, value)
    assert file.read_bytes() == damage


def test_a_damaged_file_can_be_set_aside_and_is_kept(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("{torn")
    aside = set_aside(file)
    assert aside is not None and aside.read_text() == "{torn" and not file.exists()
    write(file, HF_TOKEN, TOKEN)
    assert places.setting(HF_TOKEN, file) == TOKEN


def test_a_sound_file_is_not_set_aside(file: Path) -> None:
    write(file, HF_TOKEN, TOKEN)
    assert set_aside(file) is None
    assert places.setting(HF_TOKEN, file) == TOKEN


def test_an_empty_file_holds_nothing_that_could_be_lost(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("\n")
    write(file, HF_TOKEN, TOKEN)
    assert places.setting(HF_TOKEN, file) == TOKEN


def test_what_cannot_be_read_is_not_taken_for_nothing(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(SettingsError, match="cannot be read") as error:
        write(file, HF_TOKEN, TOKEN)
    assert not isinstance(error.value, DamagedSettings) and file.is_dir()


def test_a_write_that_fails_leaves_the_old_settings_and_no_litter(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, "HEADROOM_RUNS", "/data")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(settings.os, "fsync", full)
    with pytest.raises(SettingsError, match="No space left on device") as error:
        write(file, HF_TOKEN, TOKEN)
    assert TOKEN not in str(error.value)
    assert [path.name for path in file.parent.iterdir()] == ["headroom.json"]
    assert json.loads(file.read_text()) == {"HEADROOM_RUNS": "/data"}


@posix
def test_a_link_to_another_disk_stays_a_link(file: Path, tmp_path: Path) -> None:
    kept = tmp_path / "volume" / "headroom.json"
    kept.parent.mkdir()
    file.parent.mkdir()
    file.symlink_to(kept)
    write(file, HF_TOKEN, TOKEN)
    assert file.is_symlink() and places.setting(HF_TOKEN, kept) == TOKEN and mode(kept) == 0o600


def test_two_that_write_at_once_lose_nothing(file: Path) -> None:
    names = [f"S{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as many:
        list(many.map(lambda name: write(file, name, name), names))
    assert sorted(json.loads(file.read_text())) == sorted(names)


def test_a_token_is_taken_as_it_is_pasted() -> None:
    assert hugging_face_token(f"  {TOKEN}\n") == TOKEN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hf_",
        "hf_short",
        "sk-" + "a" * 30,
        f"{TOKEN} {TOKEN}",
        f"{TOKEN}\nX=1",
        f'"{TOKEN}"',
        "hf_" + "a" * 300,
        TOKEN + "é",
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(SettingsError) as error:
        hugging_face_token(text)
    for lang in LANGUAGES:
        said = words(error.value.sentence, lang)
        assert "hf_" in said and (len(text) < 10 or text not in said)
