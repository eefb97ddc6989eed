"""The setup behind the button: one at a time, told while it goes on, ended with the server; and answers that are shared."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from headroom_pack.headroom.contracts import say
from headroom_pack.headroom.run.locate import Toolkit
from headroom_pack.headroom.setup import Progress, SetupError, SetupStopped
from headroom_pack.nodes import recent as recent_module
from headroom_pack.nodes.recent import Recent
from headroom_pack.nodes.setting_up import SettingUp

TOOLKIT = Toolkit(Path("tools/ai-toolkit"), "tools", "0.12.26", None)


def in_a_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """What it returns, run in a thread of its own: the browser tests leave a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result(60)


class Work:
    """A setup that waits until it is let go."""

    def __init__(self, end: Callable[[], Toolkit]) -> None:
        self.begun, self.let_go, self.times = threading.Event(), threading.Event(), 0
        self._end = end

    def __call__(self, tell: Callable[[Progress], None], stop: Callable[[], bool]) -> Toolkit:
        self.times += 1
        tell(Progress("torch", 3, 7))
        self.begun.set()
        while not self.let_go.wait(0.01):
            if stop():
                raise SetupStopped
        return self._end()


def failing(error: Exception) -> Callable[[], Toolkit]:
    def fail() -> Toolkit:
        raise error

    return fail


def test_one_at_a_time_told_while_it_goes_on_and_used_when_it_is_done() -> None:
    used: list[str] = []
    work = Work(lambda: TOOLKIT)
    one = SettingUp(work, lambda: used.append("used"))
    assert one.told.state == "idle" and one.start()
    assert work.begun.wait(10)
    assert one.told.state == "running" and one.told.progress == Progress("torch", 3, 7)
    assert not one.start() and work.times == 1 and not used
    work.let_go.set()
    assert one._thread is not None
    one._thread.join(10)
    assert (one.told.state, one.told.version, used) == ("done", "0.12.26", ["used"])


def test_it_ends_with_the_server() -> None:
    work = Work(lambda: TOOLKIT)
    one = SettingUp(work, lambda: pytest.fail("it was not done"))
    one.start()
    assert work.begun.wait(10)
    one.end()
    assert one.told.state == "stopped" and one._thread is not None and not one._thread.is_alive()


def test_after_a_stop_it_can_be_begun_again() -> None:
    work = Work(lambda: TOOLKIT)
    one = SettingUp(work, lambda: None)
    one.start()
    one.end()
    assert one.start()
    work.let_go.set()
    one.end()
    assert work.times == 2 and one.told.state in ("done", "stopped")


@pytest.mark.parametrize(
    ("error", "key"),
    [
        (SetupError(say("setup.no_git", source="x")), "setup.no_git"),
        (RuntimeError("of our own making"), "settings.setup_broken"),
        (OSError(28, "No space left on device"), "settings.setup_broken"),
    ],
)
def test_whatever_goes_wrong_is_told_and_ends_it(error: Exception, key: str) -> None:
    work = Work(failing(error))
    work.let_go.set()
    one = SettingUp(work, lambda: pytest.fail("it was not done"))
    one.start()
    assert one._thread is not None
    one._thread.join(10)
    assert one.told.state == "failed" and one.told.problem is not None and one.told.problem.key == key


def test_a_setting_that_cannot_be_changed_afterwards_is_told_too() -> None:
    work = Work(lambda: TOOLKIT)
    work.let_go.set()
    one = SettingUp(work, failing(PermissionError("read-only")))  # type: ignore[arg-type]
    one.start()
    assert one._thread is not None
    one._thread.join(10)
    assert one.told.state == "failed" and not one.told.runs


def test_many_who_ask_at_once_share_one_answer() -> None:
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        return len(asked)

    async def many() -> list[int]:
        recent = Recent(ask, 3600.0)
        return [*await asyncio.gather(*(recent.get() for _ in range(20))), await recent.get()]

    assert in_a_loop(many()) == [1] * 21


def test_an_answer_that_is_too_old_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answers = [100.0], iter(("first", "second"))
    monkeypatch.setattr(recent_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    recent = Recent(lambda: next(answers), 5.0)

    async def ask() -> str:
        return await recent.get()

    found = [in_a_loop(ask())]
    for now[0] in (105.0, 105.1):
        found.append(in_a_loop(ask()))
    assert found == ["first", "first", "second"]


def test_what_is_being_found_when_it_no_longer_holds_is_found_again() -> None:
    """A folder is chosen while a checkup of the old one goes on: who then asks gets the new one's."""
    here = ["old"]
    begun, go_on = threading.Event(), threading.Event()

    def ask() -> str:
        found = here[0]
        begun.set()
        assert go_on.wait(10)
        return found

    async def changed_meanwhile() -> str:
        recent = Recent(ask, 3600.0)
        answer = asyncio.create_task(recent.get())
        await asyncio.to_thread(begun.wait, 10)
        here[0] = "new"
        recent.forget()
        go_on.set()
        return await answer

    assert in_a_loop(changed_meanwhile()) == "new"
