"""Previews never end a run: one that runs out of memory is made again smaller, else left out this time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .channel import Channel
from .phases import Phases
from .restoring import Before, Merges, release
from .smaller import Size, smaller
from .wrapping import wrap

# Tells of an out-of-memory error and of what went on; its message, None for another error.
Told = Callable[[BaseException, str], "str | None"]


class Stopping(Exception):
    """Nobody waits for the rest of the previews."""


class Previews:
    """The hooks of one pass of previews: ``BaseSDTrainProcess.sample`` and what it calls."""

    def __init__(
        self, channel: Channel, phases: Phases, out_of_memory: Told, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self.channel, self.phases, self.out_of_memory, self.stopping = channel, phases, out_of_memory, stopping
        # What a preview of a size took when it was last made, and the least it takes where it ran out.
        self._needs: dict[Size, float] = {}
        self._merges = Merges()
        self._begin(None, None)

    def sample(self, process: Any, call: Callable[..., Any], training: bool, *args: Any, **kwargs: Any) -> Any:
        """Make the previews; whatever of them runs out of memory, training finds everything as it was."""
        self._begin(process.sd, args[0] if args else kwargs.get("step"))
        self._hook(process.sd)
        before = Before(process, self._merges)
        reason = None
        try:
            result = call(*args, **kwargs)
        except Stopping:
            reason, result = "the run was asked to stop", None
        except Exception as error:
            reason = self.out_of_memory(error, "prepare")
            if reason is None:
                raise
            result = None
        finally:
            self._sd = None
        if reason is not None:
            before.restore(training)
        for index, item in enumerate(self._items):
            if index not in self._told:
                self._tell(index, item, "made" if reason is None else "skipped", reason)
        if reason is not None and not self._items:
            self.channel.write("preview", step=self._step, index=None, path=None, outcome="skipped", reason=reason)
        return result

    def _begin(self, sd: Any, step: int | None) -> None:
        self._sd, self._step = sd, step
        self._items: list[Any] = []
        self._told: set[int] = set()
        self._calls = 0
        self._reasons: dict[int, str] = {}

    def _hook(self, sd: Any) -> None:
        """Wrap the class of the model at hand, and the pipelines that older classes call inline."""
        if not wrap(type(sd), "generate_images", self._images):
            self.channel.note("this AI Toolkit has no generate_images: single previews are not seen")
        if wrap(type(sd), "generate_single_image", self._single):
            return
        for pipeline in list(vars(sys.modules[type(sd).__module__]).values()):
            if isinstance(pipeline, type) and any(base.__name__ == "DiffusionPipeline" for base in pipeline.__mro__):
                wrap(pipeline, "__call__", self._pipeline)

    def _images(self, sd: Any, call: Callable[..., Any], image_configs: Any, *args: Any, **kwargs: Any) -> Any:
        self._items = list(image_configs)
        for cls in {type(item) for item in self._items}:
            # Since 2026-07-25 a preview is written beside and moved into place.
            wrap(cls, "save_image_atomic", self._saved) or wrap(cls, "save_image", self._saved)
        return call(image_configs, *args, **kwargs)

    def _single(self, sd: Any, call: Callable[..., Any], pipeline: Any, item: Any, *args: Any, **kwargs: Any) -> Any:
        if self._sd is not sd or item not in self._items:
            return call(pipeline, item, *args, **kwargs)
        return self._make(item, lambda: call(pipeline, item, *args, **kwargs), pipeline)

    def _pipeline(self, pipeline: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        # One call an item. With a refiner there are two, and the second cannot do without the first.
        index, self._calls = self._calls, self._calls + 1
        sized = "width" in kwargs and "height" in kwargs
        if self._sd is None or self._sd.refiner_unet is not None or index >= len(self._items) or not sized:
            return call(*args, **kwargs)
        item = self._items[index]
        asked = {"width": item.width, "height": item.height}

        def generate() -> Any:
            size = {} if asked == {"width": item.width, "height": item.height} else _size_keys(item)
            return call(*args, **(kwargs | size))

        made = self._make(item, generate, pipeline)
        return SimpleNamespace(images=[None]) if made is None else made

    def _make(self, item: Any, generate: Callable[[], Any], pipeline: Any) -> Any:
        """The preview as asked, else smaller where there is no room or it runs out; None where that fails too."""
        index, asked = self._items.index(item), _size(item)
        if self.stopping():
            raise Stopping
        for size in (asked, smaller(asked, self._multiple(), _frame_step(pipeline))):
            if size is None:
                break
            reason = self._short(size)
            if reason is None:
                item.width, item.height, item.num_frames = size.width, size.height, size.frames
                if size != asked:
                    sys.modules["torch"].manual_seed(item.seed)
                try:
                    return self._measured(size, generate)
                except Exception as error:
                    reason = self.out_of_memory(error, "denoise")
                    if reason is None:
                        raise
                release()
            self._reasons[index] = reason
        item.width, item.height, item.num_frames = asked.width, asked.height, asked.frames
        self._tell(index, item, "skipped", self._reasons[index])
        item.save_image_atomic = item.save_image = item.log_image = _nothing
        return None

    def _short(self, size: Size) -> str | None:
        """Why a preview need not be tried: it took more than there is now. What it takes may be unknown."""
        room, need = self.phases.gauge.room(), self._needs.get(size)
        if room is None or need is None or need <= room.free_gib:
            return None
        return f"it needs {need:.3g} GiB more than lies on the card, {room.free_gib:.3g} GiB can be had"

    def _measured(self, size: Size, generate: Callable[[], Any]) -> Any:
        """Make a preview and keep in mind what it took above what lay on the card before."""
        before = self.phases.gauge.room()
        if before is None:
            return generate()
        self.phases.watch()
        try:
            made = generate()
        except Exception:
            # It takes more than there was; with more room it is tried again.
            self._needs[size] = max(self._needs.get(size, 0.0), before.free_gib * 1.001)
            raise
        peak = self.phases.gauge.peak()["allocated_gib"]
        if peak is not None:
            self._needs[size] = max(0.0, peak - before.allocated_gib)
        return made

    def _saved(self, item: Any, call: Callable[..., Any], image: Any, count: int = 0, *args: Any, **kwargs: Any) -> Any:
        before = _files(item)
        result = call(image, count, *args, **kwargs)
        if item in self._items:
            index = self._items.index(item)
            reason = self._reasons.get(index)
            path = Path(item.get_image_path(count))
            new = sorted(_files(item) - before)
            self._tell(
                index, item, "smaller" if reason else "made", reason, path if path in new or not new else new[-1]
            )
        return result

    def _tell(self, index: int, item: Any, outcome: str, reason: str | None = None, path: Path | None = None) -> None:
        self._told.add(index)
        size = _size(item)
        self.channel.write(
            "preview",
            step=self._step,
            index=index,
            path=None if path is None else str(path),
            width=size.width,
            height=size.height,
            frames=size.frames,
            outcome=outcome,
            reason=reason,
        )

    def _multiple(self) -> int:
        """What sides must be a multiple of: the model says it for its buckets; 8 is the least of all."""
        ask = getattr(self._sd, "get_bucket_divisibility", None)
        return max(8, int(ask())) if callable(ask) else 64


def _size(item: Any) -> Size:
    return Size(item.width, item.height, getattr(item, "num_frames", 1) or 1)


def _size_keys(item: Any) -> dict[str, int]:
    return {"width": item.width, "height": item.height}


def _frame_step(pipeline: Any) -> int | None:
    """How many frames of a clip the VAE packs into one, as diffusers' video pipelines name it."""
    for name in ("vae_scale_factor_temporal", "vae_temporal_compression_ratio"):
        step = getattr(pipeline, name, None)
        if isinstance(step, int) and step > 0:
            return step
    return None


def _files(item: Any) -> set[Path]:
    folder = Path(item.output_folder)
    return {path for path in folder.iterdir() if path.is_file()} if folder.is_dir() else set()


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Nothing to write for a preview that was left out."""
