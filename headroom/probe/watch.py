"""A small thread beside the run: memory as it is now, downloads as they grow, and the limit on host memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .channel import Channel
from .downloads import Downloads
from .gauges import KEYS, Gauge, Peak

_EVERY_SECONDS = 1.0
_CHANGE = 0.05  # a number that moved by less is the same
_LEAST_GIB = 2.0**-10


class Watch:
    """``look`` once a second. ``gauge`` is asked for, because it is another one once torch is imported."""

    def __init__(
        self,
        channel: Channel,
        gauge: Callable[[], Gauge],
        downloads: Downloads,
        host_gib: float | None = None,
        over: Callable[[str], None] = lambda why: None,
    ) -> None:
        """``over`` is told once when the process and its children hold more than ``host_gib`` of host memory."""
        self._channel, self._gauge, self._downloads = channel, gauge, downloads
        self._host_gib, self._over = host_gib, over
        self._told: Peak = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headroom-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it; afterwards it writes nothing."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_EVERY_SECONDS)

    def look(self) -> None:
        """Tell what has changed."""
        now = self._gauge().now()
        if any(_differs(self._told.get(key), now[key]) for key in KEYS):
            self._told = now
            self._channel.write("memory", **now)
        self._downloads.look()
        host = now["host_gib"]
        if self._host_gib is not None and host is not None and host > self._host_gib:
            # In words that the diagnosis of a log knows for host memory.
            why = f"host memory limit exceeded: the run holds {host:.2f} GiB of the {self._host_gib:g} GiB it may take"
            self._host_gib = None
            self._over(why)

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            try:
                self.look()
            except Exception as error:
                self._channel.note(f"memory and downloads are watched no longer: {type(error).__name__}: {error}")
                return


def _differs(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is not other
    return abs(one - other) > max(_CHANGE * max(one, other), _LEAST_GIB if max(one, other) >= 1 else 0.0)
