"""Paths of keys, and locks: a lock on a parent locks all below it, whatever a setting is called."""

from __future__ import annotations

import pytest

from headroom.job import JobError, locked
from headroom.job.paths import ANY, parse_path, write_path


@pytest.mark.parametrize(
    ("path", "process", "steps"),
    [
        ("train.batch_size", 0, ("train", "batch_size")),
        ("datasets[0].resolution", 0, ("datasets", 0, "resolution")),
        ("datasets[*]", 0, ("datasets", ANY)),
        ("process[1].sample.samples[2].width", 1, ("sample", "samples", 2, "width")),
        ("config.process[0].train", 0, ("train",)),
        ("process[2]", 2, ()),
        ("process[*].train.lr", ANY, ("train", "lr")),
        ("  model.model_kwargs.vae_tiling ", 0, ("model", "model_kwargs", "vae_tiling")),
        ("trigger_word", 0, ("trigger_word",)),
    ],
)
def test_a_path_is_a_process_and_steps(path: str, process: int | str, steps: tuple[object, ...]) -> None:
    assert parse_path(path) == (process, steps)


@pytest.mark.parametrize(
    "path", ["", " ", ".", "train.", ".train", "train..lr", "a b", "[0]", "datasets[", "datasets[x]"]
)
def test_what_is_no_path_says_so(path: str) -> None:
    with pytest.raises(JobError, match="is not the path of a key") as caught:
        parse_path(path)
    assert caught.value.key == path


@pytest.mark.parametrize("path", ["train.lr", "datasets[3].resolution", "process[1].sample.samples[0].width"])
def test_a_path_is_written_as_it_is_read(path: str) -> None:
    process, steps = parse_path(path)
    assert isinstance(process, int)
    assert write_path(steps, process) == path


@pytest.mark.parametrize(
    ("path", "lock"),
    [
        ("train.batch_size", "train.batch_size"),
        ("train.batch_size", "train"),
        ("train.ema_config.use_ema", "train.ema_config"),
        ("train.ema_config", "train.ema_config.use_ema"),  # the change would replace what is locked
        ("datasets[0].resolution", "datasets"),
        ("datasets[0].resolution", "datasets[0]"),
        ("datasets[1].resolution", "datasets[*]"),
        ("datasets[1].resolution", "datasets[*].resolution"),
        ("datasets[*].resolution", "datasets[1].resolution"),
        ("train.batch_size", "process[0].train"),
        ("train.batch_size", "process[*].train.batch_size"),
        ("process[1].train.batch_size", "process[1]"),
        ("train.batch_size", "config.process[0].train.batch_size"),
        ("network.linear", "network.rank"),
        ("network.rank", "network.linear"),
        ("model.layer_offloading", "model.auto_memory"),
    ],
)
def test_a_lock_forbids(path: str, lock: str) -> None:
    assert locked(path, [lock])
    assert locked(path, ["save.dtype", lock])


@pytest.mark.parametrize(
    ("path", "lock"),
    [
        ("train.batch_size", "train.batch"),
        ("train.batch_size", "sample"),
        ("datasets[0].resolution", "datasets[1]"),
        ("datasets[0].resolution", "datasets[*].num_frames"),
        ("train.batch_size", "process[1].train"),
        ("process[1].train.batch_size", "train.batch_size"),
        ("network.conv", "network.rank"),
        ("model.layer_offloading_transformer_percent", "model.layer_offloading"),
    ],
)
def test_a_lock_leaves_alone(path: str, lock: str) -> None:
    assert not locked(path, [lock])


def test_without_locks_nothing_is_locked() -> None:
    assert not locked("train.batch_size", [])


@pytest.mark.parametrize("lock", ["", "train batch size", "datasets[one]", "..."])
def test_a_lock_that_means_nothing_is_an_error_even_if_another_one_fits(lock: str) -> None:
    with pytest.raises(JobError):
        locked("train.batch_size", ["train", lock])
