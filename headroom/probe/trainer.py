"""AI Toolkit's training process (``BaseSDTrainProcess``) under watch: phases, steps, saves, requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import torch_errors
from .batches import Batch, describe
from .channel import Channel
from .control import Control
from .largest_bucket import LargestBucket
from .phases import Phases
from .previews import Previews
from .wrapping import wrap

# What a phase does when the frames of an error say nothing narrower.
_DOING = {"train": "forward", "cache": "encode"}
_TOLD = "_headroom_told"


class Trainer:
    """The hooks of a training process. A hook this version does not have is said once, in a note."""

    def __init__(self, channel: Channel, phases: Phases, control: Control, largest_bucket: str) -> None:
        self.channel, self.phases, self.control = channel, phases, control
        self.done: int | None = None
        self.total: int | None = None
        self.skipped = 0
        self.previews = Previews(channel, phases, self.out_of_memory, lambda: self.control.stop_asked)
        self.largest_bucket = LargestBucket(channel, largest_bucket, self.out_of_memory)
        self._prepared = self._tried = False
        self._step_failed: tuple[str, Batch, int] | None = None

    def install(self, process_class: type) -> None:
        """Wrap ``run``; all else is wrapped when it runs, on the class that runs."""
        wrap(process_class, "run", self._run)

    @property
    def steps(self) -> dict[str, int | None]:
        return {"done": self.done, "total": self.total, "skipped_batches": self.skipped}

    def out_of_memory(self, error: BaseException, doing: str | None = None, **more: Any) -> str | None:
        """Tell of an out-of-memory error once, in the phase it fell in; its message, None when it is none.

        ``doing`` is what went on where the frames say nothing narrower.
        """
        if not torch_errors.is_out_of_memory(error):
            return None
        message = str(error)
        if not getattr(error, _TOLD, False):
            setattr(error, _TOLD, True)
            phase = self.phases.current
            self.channel.write(
                "out_of_memory",
                phase=phase,
                inside=torch_errors.inside(error, doing or _DOING.get(phase, phase)),
                message=message,
                numbers=torch_errors.numbers(message),
                **more,
            )
        return message

    def _run(self, process: Any, call: Callable[..., Any]) -> Any:
        self._prepared = self._tried = False
        self._step_failed = None
        self._hook(type(process))
        self.phases.begin("load")
        try:
            self.control.check()
            return call()
        except Exception as error:
            self.out_of_memory(error)
            raise
        except KeyboardInterrupt:
            if self.control.why is not None:
                raise MemoryError(self.control.why) from None
            raise
        finally:
            self.control.training = False
            self.phases.end_all()

    def _hook(self, cls: type) -> None:
        hooks: dict[str, Callable[..., Any]] = {
            "setup_validation": self._after_load,
            "before_dataset_load": self._after_load,
            "hook_before_train_loop": self._prepare,
            "ensure_params_requires_grad": self._parameters,
            "hook_train_loop": self._step,
            "end_step_hook": self._end_step,
            "sample": self._sample,
            "save": self._save,
        }
        missing = [name for name, around in hooks.items() if not wrap(cls, name, around)]
        # Validation came in 2026-07-19; before it, the load is over where the datasets begin.
        missing = [name for name in missing if name != "setup_validation"]
        if missing:
            self.channel.note(f"this AI Toolkit has no {', '.join(missing)}: what they would tell is not seen")

    def _after_load(self, process: Any, call: Callable[..., Any]) -> Any:
        self.control.check()
        # SDTrainer.encode_static_prompt tries once more after whatever error, while it caches.
        wrap(type(process.sd), "encode_prompt", self._encode)
        if self.phases.current == "load":
            self.phases.pass_by("load")
            self.phases.begin("cache")
        return call()

    def _encode(self, sd: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            if self.phases.current == "cache":  # elsewhere it reaches somebody who can tell more of it
                self.out_of_memory(error, "text")
            raise

    def _prepare(self, process: Any, call: Callable[..., Any]) -> Any:
        if self.phases.current == "load":
            self.phases.pass_by("load")
            self.phases.begin("cache")
        result = call()
        self.phases.pass_by("cache")
        self._prepared = True
        return result

    def _parameters(self, process: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        # Called once more right before the loop, after the baseline previews.
        if self._prepared and self.phases.current == "startup":
            self._begin_training(process)
        return call(*args, **kwargs)

    def _begin_training(self, process: Any) -> None:
        self.control.check()
        self.total = getattr(process.train_config, "steps", None)
        self.done = process.step_num
        self.phases.pass_by("baseline_sample")
        self.phases.begin("train")
        self.control.training = True

    def _step(self, process: Any, call: Callable[..., Any], batch: Any, *args: Any, **kwargs: Any) -> Any:
        self._tell_skipped()
        if not self.phases.inside("train"):
            self._begin_training(process)
        if not self._tried:
            self._tried = True
            self.largest_bucket.try_out(process)
        given, step = describe(batch), int(process.step_num) + 1
        begun = time.perf_counter()
        try:
            losses = call(batch, *args, **kwargs)
        except Exception as error:
            message = self.out_of_memory(error)
            if message is not None:
                self._step_failed = message, given, step
            raise
        self.done = step
        self.channel.write(
            "step",
            step=step,
            total=self.total,
            loss=_loss(losses),
            lr=_learning_rate(getattr(process, "optimizer", None)),
            seconds=round(time.perf_counter() - begun, 4),
            bucket=given.bucket,
            batch=given.items,
        )
        return losses

    def _tell_skipped(self) -> None:
        """AI Toolkit went on after an out-of-memory error: it skipped the batch, and counts the step as done."""
        if self._step_failed is None:
            return
        (message, batch, step), self._step_failed = self._step_failed, None
        self.done = step
        self.skipped += 1
        self.channel.write(
            "skipped",
            step=step,
            message=message,
            numbers=torch_errors.numbers(message),
            bucket=batch.bucket,
            files=batch.files,
        )

    def _end_step(self, process: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._tell_skipped()
        result = call(*args, **kwargs)
        for word in self.control.take():
            self.carry_out(word, process)
        return result

    def carry_out(self, word: str, process: Any) -> None:
        """Do between two steps what was asked for, as AI Toolkit does it (``DiffusionTrainer.maybe_save``)."""
        process.optimizer.zero_grad()
        if word in ("save", "stop"):
            process.save(process.step_num)
        else:
            process.sample(process.step_num)
            if getattr(process.train_config, "unload_text_encoder", False):
                process.sd.text_encoder_to("cpu")
        process.ensure_params_requires_grad()
        if word == "stop":
            self.control.stopping = True
            if self.control.why is not None:
                raise MemoryError(self.control.why)
            # run.py ends a job in order on this one; nothing is saved by it.
            raise KeyboardInterrupt("asked to stop")

    def _sample(self, process: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._tell_skipped()
        phase = "sample" if self.phases.inside("train") else "baseline_sample"
        with self.phases.within(phase):
            return self.previews.sample(process, call, phase == "sample", *args, **kwargs)

    def _save(self, process: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._tell_skipped()
        before = _checkpoints(process)
        with self.phases.within("save"):
            try:
                result = call(*args, **kwargs)
            except Exception as error:
                self.out_of_memory(error)
                raise
        for path, state in _checkpoints(process).items():
            if before.get(path) != state:
                self.channel.write("checkpoint", step=process.step_num, path=str(path), bytes=state[1])
        return result


def _loss(losses: Any) -> Any:
    values = losses if isinstance(losses, dict) else {"loss": losses}
    return values.get("loss", next(iter(values.values()), None))


def _learning_rate(optimizer: Any) -> float | None:
    groups = getattr(optimizer, "param_groups", None)
    return groups[0].get("lr") if groups else None


def _checkpoints(process: Any) -> dict[Path, tuple[int, int]]:
    """What AI Toolkit has saved so far: (time, bytes) by path; the optimizer's state is none."""
    root = getattr(process, "save_root", None)
    found: dict[Path, tuple[int, int]] = {}
    for path in Path(root).iterdir() if root and Path(root).is_dir() else ():
        whole_model = path.is_dir() and path.name.startswith(process.job.name)
        if whole_model or (path.suffix in (".safetensors", ".pt") and path.name != "optimizer.pt"):
            files = [each.stat() for each in path.rglob("*") if each.is_file()] if whole_model else [path.stat()]
            found[path] = max((each.st_mtime_ns for each in files), default=0), sum(each.st_size for each in files)
    return found
