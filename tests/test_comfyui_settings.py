"""The settings panel's addresses in a real ComfyUI: what they take, what they refuse, and what they never tell."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import tiny_setup

from demo.comfyui import ComfyUI
from demo.environment import python

pytestmark = pytest.mark.comfyui

TOKEN = "hf_" + "Zq7" * 11
OTHER_TOKEN = "hf_" + "Yp6" * 11
SOURCE = "HEADROOM_AI_TOOLKIT_SOURCE"
BIN = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
posix = pytest.mark.skipif(os.name == "nt", reason="file modes and links as on Linux and macOS")


@pytest.fixture(scope="module")
def source() -> Iterator[tiny_setup.Source]:
    with tiny_setup.Source().serving() as serving:
        yield serving


@pytest.fixture(scope="module")
def comfyui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyUI]:
    """A server of its own: what these tests change holds for the whole server."""
    if not python().exists():
        pytest.skip("a real ComfyUI; `python tests` installs it")
    base = tmp_path_factory.mktemp("comfyui-settings")
    with ComfyUI(base, python(), environment=tiny_setup.surroundings(base)) as started:
        yield started


@pytest.fixture(autouse=True)
def nothing_kept(comfyui: ComfyUI) -> Iterator[None]:
    yield
    settings_file(comfyui).unlink(missing_ok=True)


def settings_file(comfyui: ComfyUI) -> Path:
    return comfyui.base / "user" / "headroom.json"


def kept(comfyui: ComfyUI) -> dict[str, str]:
    return json.loads(settings_file(comfyui).read_text(encoding="utf-8"))


def toolkit(folder: Path) -> Path:
    for name in ("toolkit", "jobs", "venv"):
        (folder / name).mkdir(parents=True)
    for name in ("run.py", "version.py", "venv/pyvenv.cfg"):
        (folder / name).write_text("", encoding="utf-8")
    program = folder.joinpath("venv", *BIN)
    program.parent.mkdir()
    program.write_text("", encoding="utf-8")
    return folder


def until(true: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "it has not come"
        time.sleep(0.1)
    return found


def choose(comfyui: ComfyUI, folder: Any, lang: str = "en") -> tuple[int, Any]:
    return comfyui.call(f"/headroom/settings/ai_toolkit?lang={lang}", {"folder": folder})


# AI Toolkit's folder


def test_at_first_nothing_is_set(comfyui: ComfyUI) -> None:
    assert comfyui.call("/headroom/settings") == (
        200,
        {"ai_toolkit": {"folder": None, "from": None}, "token": {"from": None}},
    )


def test_a_folder_with_ai_toolkit_and_its_python_is_kept_and_can_be_forgotten(comfyui: ComfyUI, tmp_path: Path) -> None:
    folder = toolkit(tmp_path / "ai-toolkit")
    status, answer = choose(comfyui, str(folder))
    assert (status, answer["ai_toolkit"]) == (200, {"folder": str(folder.resolve()), "from": "file"})
    assert kept(comfyui) == {"HEADROOM_AI_TOOLKIT": str(folder.resolve())}
    found = comfyui.call("/headroom/doctor")[1]
    assert found["ai_toolkit"]["folder"] == str(folder.resolve())
    assert found["python"] is None and str(folder) in found["notes"][0], "what is wrong with its Python is said"
    assert choose(comfyui, None)[1]["ai_toolkit"] == {"folder": None, "from": None}
    assert kept(comfyui) == {}


def test_the_checkup_after_a_change_is_not_the_one_before_it(comfyui: ComfyUI, tmp_path: Path) -> None:
    assert comfyui.call("/headroom/doctor")[1]["ai_toolkit"] is None
    choose(comfyui, str(toolkit(tmp_path / "t")))
    assert comfyui.call("/headroom/doctor")[1]["ai_toolkit"] is not None


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("", "whole path"),
        ("ai-toolkit", "whole path"),
        ("//host/share", "whole path"),
        ("/etc", "is not AI Toolkit's folder"),
        ("/proc/self", "is not AI Toolkit's folder"),
        ("/usr/bin/python3", "is not AI Toolkit's folder"),
        ("/a\u0000b", "whole path"),
        ("/" + "x" * 300, "cannot be looked at|is not AI Toolkit's folder"),
    ],
)
def test_no_other_folder_is_taken(comfyui: ComfyUI, folder: str, said: str) -> None:
    status, answer = choose(comfyui, folder)
    assert status == 400
    assert any(each in answer["problem"] for each in said.split("|")), answer
    assert not settings_file(comfyui).exists()


@pytest.mark.parametrize("place", ["input", "output", "temp", "user/default"])
def test_what_the_page_can_write_is_never_taken(comfyui: ComfyUI, place: str) -> None:
    folder = toolkit(comfyui.base / place / "ai-toolkit")
    status, answer = choose(comfyui, str(folder))
    assert status == 400 and "anybody who can open ComfyUI's page" in answer["problem"]
    assert not settings_file(comfyui).exists()


def test_an_ai_toolkit_that_was_uploaded_is_not_taken(comfyui: ComfyUI) -> None:
    """What somebody without a login can do: put the files there with ComfyUI's own upload, then choose them."""
    for name in ("run.py", "version.py", "toolkit/x", "jobs/x", "venv/pyvenv.cfg", "/".join(("venv", *BIN))):
        subfolder, _, file = f"planted/{name}".rpartition("/")
        assert upload(comfyui, subfolder, file) == 200
    planted = comfyui.base / "input" / "planted"
    assert planted.joinpath("venv", *BIN).is_file(), "the upload worked, so there is something to refuse"
    status, answer = choose(comfyui, str(planted))
    assert status == 400 and "anybody who can open ComfyUI's page" in answer["problem"]


def upload(comfyui: ComfyUI, subfolder: str, file: str) -> int:
    """Put a file into ComfyUI's input folder as its page does."""
    edge = "headroom-edge"
    field = '--{0}\r\nContent-Disposition: form-data; name="{1}"{2}\r\n\r\n{3}\r\n'
    form = field.format(edge, "subfolder", "", subfolder) + field.format(
        edge, "image", f'; filename="{file}"\r\nContent-Type: image/png', "x"
    )
    return send(
        comfyui, "/upload/image", f"{form}--{edge}--\r\n", {"Content-Type": f"multipart/form-data; boundary={edge}"}
    )


@posix
def test_a_link_to_it_is_judged_where_it_leads(comfyui: ComfyUI, tmp_path: Path) -> None:
    planted = toolkit(comfyui.base / "input" / "linked")
    (tmp_path / "t").symlink_to(planted)
    assert choose(comfyui, str(tmp_path / "t"))[0] == 400


def test_a_refusal_comes_in_the_page_s_language(comfyui: ComfyUI) -> None:
    assert "完整路径" in choose(comfyui, "x", "zh")[1]["problem"]


@pytest.mark.parametrize(
    "sent", [{"folder": 3}, {"folder": ["/x"]}, {}, {"folder": "/x", "python": "/bin/sh"}, [], "x"]
)
def test_a_page_names_a_folder_and_nothing_else(comfyui: ComfyUI, sent: Any) -> None:
    assert comfyui.call("/headroom/settings/ai_toolkit", sent)[0] == 400
    assert not settings_file(comfyui).exists()


def test_a_settings_file_that_cannot_be_read_is_kept_and_can_be_set_aside(comfyui: ComfyUI, tmp_path: Path) -> None:
    file = settings_file(comfyui)
    file.write_text('{"HEADROOM_RUNS": "/da', encoding="utf-8")
    folder = toolkit(tmp_path / "t")
    status, answer = choose(comfyui, str(folder))
    assert status == 400 and "nothing was changed" in answer["problem"]
    shown = comfyui.call("/headroom/settings")[1]
    assert shown["damaged"] is True and str(file) in shown["problem"]
    assert file.read_text(encoding="utf-8") == '{"HEADROOM_RUNS": "/da'
    assert "problem" not in comfyui.call("/headroom/settings/set_aside", {}, "POST")[1]
    assert choose(comfyui, str(folder))[0] == 200
    (aside,) = file.parent.glob("headroom.json.*.damaged")
    assert aside.read_text(encoding="utf-8") == '{"HEADROOM_RUNS": "/da'
    aside.unlink()


# The Hugging Face token


def test_a_token_is_kept_and_removed_and_told_by_no_answer(comfyui: ComfyUI, tmp_path: Path) -> None:
    choose(comfyui, str(toolkit(tmp_path / "t")))
    answers = [comfyui.call("/headroom/settings/token", {"token": f" {TOKEN}\n"})]
    assert answers[0][1]["token"] == {"from": "file"}
    assert kept(comfyui)["HF_TOKEN"] == TOKEN and "HEADROOM_AI_TOOLKIT" in kept(comfyui)
    for path in (
        "/headroom/settings",
        "/headroom/doctor",
        "/headroom/setup",
        "/headroom/gpus",
        "/settings",
        "/history",
    ):
        answers.append(comfyui.call(path))
        assert answers[-1][0] == 200, path
    # Ways to the file itself.
    for path in ("headroom.json", "..%2Fheadroom.json", "../headroom.json", "..%2F..%2Fuser%2Fheadroom.json"):
        answers += [comfyui.call(f"/userdata/{path}"), comfyui.call(f"/api/userdata/{path}")]
        answers += [comfyui.call(f"/view?filename={path}&type={place}") for place in ("input", "output", "temp")]
    answers += [comfyui.call("/userdata?dir=..&recurse=true"), comfyui.call("/v2/userdata?path=..")]
    answers.append(comfyui.call("/headroom/settings/token", {"token": f"{TOKEN} and more"}))
    assert answers[-1][0] == 400
    assert TOKEN not in json.dumps(answers)
    status, answer = comfyui.call("/headroom/settings/token", method="DELETE")
    assert status == 200 and answer["token"] == {"from": None}
    assert "HF_TOKEN" not in kept(comfyui)
    assert TOKEN not in comfyui.log()


@posix
def test_only_the_server_can_read_the_token(comfyui: ComfyUI) -> None:
    comfyui.call("/headroom/settings/token", {"token": TOKEN})
    assert settings_file(comfyui).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "token", ["", "hf_", "hf_ü" + "a" * 30, "x" * 40, "hf_" + "a" * 5000, f"{TOKEN}\n{OTHER_TOKEN}", None]
)
def test_what_is_no_token_is_not_kept(comfyui: ComfyUI, token: str | None) -> None:
    status, answer = comfyui.call("/headroom/settings/token", {"token": token})
    assert status == 400 and "huggingface.co/settings/tokens" in answer["problem"]
    assert not settings_file(comfyui).exists()


def test_a_body_that_is_too_long_or_no_json_is_refused_and_not_repeated(comfyui: ComfyUI) -> None:
    for sent in ('{"token": "' + TOKEN, json.dumps({"token": TOKEN * 5000}), "[" * 60_000):
        assert send(comfyui, "/headroom/settings/token", sent, {"Content-Type": "application/json"}) == 400
    assert TOKEN not in comfyui.log() and not settings_file(comfyui).exists()


# Other sites

OWN = {"Content-Type": "application/json"}
ELSEWHERE = "https://elsewhere.example"


def send(comfyui: ComfyUI, path: str, text: str, headers: dict[str, str], method: str = "POST") -> int:
    """The status, with exactly these headers; ``Host`` too, which urllib does not let one choose."""
    address = urlsplit(comfyui.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        connection.request(method, path, text.encode(), headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OWN, 200),  # no browser: a script of the server's owner
        (OWN | {"Origin": "https://comfyui.example", "Host": "comfyui.example"}, 200),
        (OWN | {"Origin": "https://comfyui.example", "Sec-Fetch-Site": "same-origin", "Host": "10.0.0.7:8188"}, 200),
        (OWN | {"Origin": "https://comfyui.example", "X-Forwarded-Host": "comfyui.example", "Host": "10.0.0.7"}, 200),
        (OWN | {"Sec-Fetch-Site": "none", "Host": "comfyui.example"}, 200),  # typed by a person
        # A page of another site, by all that a browser says of it.
        (OWN | {"Origin": ELSEWHERE, "Sec-Fetch-Site": "cross-site", "Host": "comfyui.example"}, 403),
        (OWN | {"Origin": ELSEWHERE, "Host": "comfyui.example"}, 403),
        (OWN | {"Origin": "null", "Host": "comfyui.example"}, 403),
        (OWN | {"Origin": "https://another.example", "Sec-Fetch-Site": "same-site", "Host": "comfyui.example"}, 403),
        # What a form can send without asking first.
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({}, 415),
    ],
)
def test_only_comfyui_s_own_page_can_set_a_token(comfyui: ComfyUI, headers: dict[str, str], status: int) -> None:
    assert send(comfyui, "/headroom/settings/token", json.dumps({"token": TOKEN}), headers) == status
    assert settings_file(comfyui).exists() is (status == 200)


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("POST", "/headroom/settings/ai_toolkit", '{"folder": null}'),
        ("DELETE", "/headroom/settings/token", ""),
        ("POST", "/headroom/settings/set_aside", "{}"),
        ("POST", "/headroom/setup", "{}"),
        ("POST", "/headroom/setup/stop", "{}"),
        ("POST", "/headroom/pasted?kind=log", "x"),
    ],
)
def test_nothing_that_changes_something_is_open_to_other_sites(
    comfyui: ComfyUI, method: str, path: str, text: str
) -> None:
    headers = OWN | {"Origin": ELSEWHERE, "Host": "comfyui.example"}
    assert send(comfyui, path, text, headers, method) == 403


# The setup


def comes_from(comfyui: ComfyUI, source: str) -> None:
    """What only the server's owner can set: where AI Toolkit is fetched from."""
    settings_file(comfyui).write_text(json.dumps({SOURCE: source}), encoding="utf-8")


def setup(comfyui: ComfyUI, what: str = "", **body: Any) -> Any:
    status, answer = comfyui.call(f"/headroom/setup{what}", body, "POST")
    assert status == 200, answer
    return answer


def state(comfyui: ComfyUI) -> dict[str, Any]:
    return comfyui.call("/headroom/setup")[1]


def test_a_setup_that_fails_says_why_and_can_be_begun_again(comfyui: ComfyUI) -> None:
    comes_from(comfyui, str(comfyui.base / "gone.zip"))
    for _ in range(2):
        setup(comfyui)
        ended = until(lambda: (now := state(comfyui))["state"] not in ("running", "stopping") and now)
        assert ended["state"] == "failed" and "gone.zip" in ended["problem"]


def test_the_setup_tells_what_it_takes_goes_on_is_stopped_and_ends(
    comfyui: ComfyUI, source: tiny_setup.Source, tmp_path: Path
) -> None:
    tools = comfyui.base / "data" / "headroom" / "tools" / "ai-toolkit"
    comes_from(comfyui, source.url)
    before = state(comfyui)
    assert before["needs"]["folder"] == str(tools) and before["needs"]["source"] == source.url
    assert before["needs"]["gib"] > 5 and before["needs"]["free_gib"] > 0
    chosen = toolkit(tmp_path / "another")
    choose(comfyui, str(chosen))

    setup(comfyui)
    running = until(lambda: (now := state(comfyui)).get("total") and now)
    assert running["state"] == "running" and running["step"] == "Fetching AI Toolkit"
    assert 0 < running["done"] < running["total"]
    asked = source.asked
    assert setup(comfyui)["state"] == "running" and source.asked == asked, "there is one at a time"
    setup(comfyui, "/stop")
    assert until(lambda: (now := state(comfyui))["state"] not in ("running", "stopping") and now)["state"] == "stopped"
    assert not tools.joinpath("run.py").exists()
    assert kept(comfyui)["HEADROOM_AI_TOOLKIT"] == str(chosen.resolve()), "what was used before still is"

    source.go_on.set()
    setup(comfyui, source="https://elsewhere.example/evil.git", commit="x")  # a page cannot choose what is set up
    ended = until(lambda: (now := state(comfyui))["state"] not in ("running", "stopping") and now, 120)
    assert (ended["state"], ended["version"]) == ("done", tiny_setup.VERSION), ended
    found = comfyui.call("/headroom/doctor")[1]
    assert found["ai_toolkit"]["folder"] == str(tools) and found["ai_toolkit"]["version"] == tiny_setup.VERSION
    assert found["python"]["torch"] == tiny_setup.TORCH
    assert comfyui.call("/headroom/settings")[1]["ai_toolkit"]["from"] is None


# GPUs


def test_the_gpus_are_told_or_why_there_are_none(comfyui: ComfyUI) -> None:
    status, answer = comfyui.call("/headroom/gpus")
    assert status == 200 and set(answer) >= {"driver", "gpus", "notes"}
    assert answer["gpus"] or answer["notes"]
