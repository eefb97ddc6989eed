"""The lever on the data loader: worker processes take host RAM, and hand their batches over through /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..situation import Situation, whole
from .lever import Lever, Move


class LoaderWorkers(Lever):
    """One worker with one batch ahead, then none. ``threads``: fewer pictures decoded ahead while caching latents.

    Only the first dataset's values count for a loader, regularization sets have their own (toolkit/data_loader.py
    get_dataloader_from_datasets). Versions before August 2026 passed ``prefetch_factor`` even without workers, which
    torch refuses: so that goes with them, as null, which every version takes.
    """

    name = "loader_workers"

    def moves(self, at: Situation, **how: Any) -> Iterator[Move]:
        if how.get("threads"):
            paths = [f"datasets[{index}].cache_latents_num_workers" for index in at.datasets]
            many = [path for path in paths if (whole(at.get(path)) or 0) > 1]
            if many:
                yield tuple(self.set(path, 1, "threads") for path in many)
            return
        loaders = [path for path in _loaders(at) if (whole(at.get(f"{path}.num_workers")) or 0) > 0]
        busy = [path for path in loaders if self._in_flight(at, path) > 1]
        edits = []
        if busy and not how.get("none"):
            for path in busy:
                for key in ("num_workers", "prefetch_factor"):
                    if (whole(at.get(f"{path}.{key}")) or 2) > 1:
                        edits.append(self.set(f"{path}.{key}", 1, "one"))
        else:
            for path in loaders:
                edits.append(self.set(f"{path}.num_workers", 0, "none"))
                if at.get(f"{path}.prefetch_factor") is not None:
                    edits.append(self.set(f"{path}.prefetch_factor", None, "none"))
        if edits:
            yield tuple(edits)

    @staticmethod
    def _in_flight(at: Situation, path: str) -> int:
        return (whole(at.get(f"{path}.num_workers")) or 0) * (whole(at.get(f"{path}.prefetch_factor")) or 2)


def _loaders(at: Situation) -> Iterator[str]:
    """The datasets whose values count: the first one, and the first regularization set."""
    for regular in (False, True):
        for index in at.datasets:
            if bool(at.get(f"datasets[{index}].is_reg")) is regular:
                yield f"datasets[{index}]"
                break
