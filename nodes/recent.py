"""Answers that take a while to find: asked for once in a few seconds, however many pages want them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Recent(Generic[Answer]):
    """The answer of ``ask``, which runs in a thread, at most so many seconds old."""

    def __init__(self, ask: Callable[[], Answer], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._asking = asyncio.Lock()
        self._kept: Answer | None = None
        self._begun = self._ended = self._forgotten = float("-inf")

    async def get(self) -> Answer:
        """The answer; one that is being found is waited for and not asked for twice."""
        async with self._asking:
            while self._kept is None or self._begun < self._forgotten or time.monotonic() - self._ended > self._seconds:
                self._begun = time.monotonic()
                self._kept = await asyncio.to_thread(self._ask)
                self._ended = time.monotonic()
            return self._kept

    def forget(self) -> None:
        """What was found, or is being found, no longer holds."""
        self._forgotten = time.monotonic()
