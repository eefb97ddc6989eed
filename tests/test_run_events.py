"""The events of a run are read whole while they are written, and a crash loses the last line at most."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from headroom.contracts import Event
from headroom.run.events import EventReader, EventWriter, follow, read_events


def _line(seq: int, event: str = "note", **keys: object) -> str:
    return json.dumps({"v": 1, "seq": seq, "t": seq / 10, "event": event, **keys}) + "\n"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventWriter(path) as writer:
        written = [
            writer.write("phase", phase="load", state="begin"),
            writer.write("step", step=1, total=6, loss=0.25, bucket=[512, 512, 1]),
            writer.write("note", text="显存 “quoted”\nnext line"),
        ]
    assert read_events(path) == written
    assert [event.seq for event in written] == [1, 2, 3]
    assert len(path.read_bytes().splitlines()) == 3


def test_a_file_that_is_not_there_has_no_events(tmp_path: Path) -> None:
    assert read_events(tmp_path / "events.jsonl") == []


def test_a_crash_at_any_byte_loses_the_last_line_at_most(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    with EventWriter(whole) as writer:
        for step in range(3):
            writer.write("step", step=step, files=["ä.png", "图.png"])
    text = whole.read_bytes()
    events = read_events(whole)
    for size in range(len(text) + 1):
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(text[:size])
        assert read_events(cut) == events[: text[:size].count(b"\n")]


def test_a_writer_goes_on_behind_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(_line(1) + _line(2) + '{"v": 1, "seq": 3, "t": 0.3, "ev', encoding="utf-8")
    with EventWriter(path) as writer:
        writer.write("note", text="again")
    reader = EventReader(path)
    assert [(event.seq, event.keys.get("text")) for event in reader.read()] == [(1, None), (2, None), (3, "again")]
    assert reader.damaged == 1


def test_a_line_is_read_once_it_is_complete_and_only_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    reader = EventReader(path)
    line = _line(1, text="é")
    for byte in line.encode():
        assert reader.read() == []
        with open(path, "ab") as file:
            file.write(bytes([byte]))
    assert reader.read() == [Event(1, 0.1, "note", {"text": "é"})]
    assert reader.read() == []


def test_unknown_events_and_keys_are_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(_line(1, "invented_next_year", new={"a": [1, 2]}), encoding="utf-8")
    assert read_events(path) == [Event(1, 0.1, "invented_next_year", {"new": {"a": [1, 2]}})]


@pytest.mark.parametrize(
    "bad", ["no json\n", "[]\n", "17\n", "null\n", '{"v":1,"t":0,"event":"x"}\n', '{"v":1,"seq":"2","t":0,"event":"x"}\n', '{"v":1,"seq":2,"t":null,"event":"x"}\n', "\x00\x00\n"]
)
def test_a_damaged_line_is_counted_and_the_rest_is_read(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(_line(1) + bad + _line(2), encoding="utf-8")
    reader = EventReader(path)
    assert [event.seq for event in reader.read()] == [1, 2]
    assert (reader.damaged, reader.missing) == (1, 0)


def test_missing_numbers_are_counted_and_repeated_ones_dropped(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(_line(seq) for seq in (1, 2, 2, 5, 4, 6)), encoding="utf-8")
    reader = EventReader(path)
    assert [event.seq for event in reader.read()] == [1, 2, 5, 6]
    assert reader.missing == 2


def test_numbers_that_are_no_json_become_null(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventWriter(path) as writer:
        writer.write("step", loss=float("nan"), more=[float("inf"), {"x": float("-inf")}])
    assert "NaN" not in path.read_text(encoding="utf-8")
    assert read_events(path)[0].keys == {"loss": None, "more": [None, {"x": None}]}


def test_following_gives_every_event_until_the_writer_is_done(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    done = threading.Event()

    def write() -> None:
        with EventWriter(path) as writer:
            for step in range(200):
                writer.write("step", step=step)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = [event.keys["step"] for event in follow(path, done.is_set, poll_seconds=0.001)]
    thread.join()
    assert seen == list(range(200))
