"""The weight transport of a folder: complete or not there, and one at a time."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import resource
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import core_rl.builtin.disk
from core_rl.builtin.config import DiskConfig
from core_rl.builtin.disk import Disk
from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint


class Source:
    """A train engine. `watch` is called before each tensor."""

    def __init__(self, seed=0, watch=lambda: None):
        generator = torch.Generator().manual_seed(seed)
        self.tensors = {f"layer.{index}": torch.randn(300, 1000, generator=generator) for index in range(3)}
        self.tensors["half"] = torch.randn(40, 6, generator=generator).bfloat16().T
        self.tensors["tied"] = self.tensors["layer.0"]
        self.tensors["row"] = self.tensors["layer.1"][7]
        self.watch = watch

    def export_weights(self):
        for name, tensor in self.tensors.items():
            self.watch()
            yield name, tensor


class Target:
    """A rollout engine that reads as the index says; `loses` a tensor."""

    def __init__(self, loses=None):
        self.weights, self.calls, self.loses = {}, [], loses

    async def begin_update(self):
        self.calls.append("begin")

    async def update_from_disk(self, path):
        self.calls.append(Path(path).name)
        index = json.loads((Path(path) / "model.safetensors.index.json").read_text())["weight_map"]
        files = {file: load_file(Path(path) / file) for file in set(index.values())}
        self.weights = {name: files[file][name] for name, file in index.items()}
        if self.loses:
            self.weights[self.loses].zero_()

    async def end_update(self, version):
        self.calls.append(version)

    async def fingerprint(self):
        return fingerprint(self.weights.items())


def sync(disk, source, version, target=None):
    return asyncio.run(disk.sync(source, target or Target(), version))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def disk(tmp_path):
    return Disk(DiskConfig(dir=str(tmp_path / "weights"), bucket_mb=2))


def test_what_is_read_is_what_was_sent(disk, tmp_path):
    """Bit by bit, in several files, tied and transposed tensors too; the folder of the update before is gone."""
    target = Target()
    reports = [sync(disk, Source(version), version, target) for version in (1, 2)]

    assert target.calls == ["begin", "version-000001", 1, "begin", "version-000002", 2]
    assert [report.version for report in reports] == [1, 2]
    assert reports[0].num_bytes == 4 * 300 * 1000 * 4 + 240 * 2 + 1000 * 4
    assert all(
        tensor.dtype == target.weights[name].dtype and torch.equal(tensor, target.weights[name])
        for name, tensor in Source(2).export_weights()
    )
    assert names(tmp_path / "weights") == ["version-000002"]
    assert len(names(tmp_path / "weights" / "version-000002")) == 4


def test_the_same_version_again_takes_the_place_of_the_first(disk, tmp_path):
    """As after a checkpoint that was gone back to."""
    sync(disk, Source(1), 5)
    target = Target()
    sync(disk, Source(2), 5, target)

    assert names(tmp_path / "weights") == ["version-000005"]
    assert torch.equal(target.weights["layer.2"], Source(2).tensors["layer.2"])


def test_an_unfinished_folder_never_has_the_name_of_a_finished_one(disk, tmp_path):
    """Seen before every tensor; what an earlier try left does no harm."""
    root, seen = tmp_path / "weights", []
    (root / "version-000001.unfinished").mkdir(parents=True)
    (root / "version-000001.unfinished" / "model-00077.safetensors").touch()
    for version in (1, 2):
        sync(disk, Source(version, watch=lambda: seen.append(names(root))), version)

    assert seen == [["version-000001.unfinished"]] * 6 + [["version-000001", "version-000002.unfinished"]] * 6
    assert "model-00077.safetensors" not in names(root / "version-000002")


@pytest.mark.parametrize("error", [ValueError("of the engine"), ConnectionResetError("of the engine")])
def test_an_engine_that_fails_leaves_the_update_before(disk, tmp_path, error):
    """Its error is its own: nobody says that the disk is to blame."""
    sync(disk, Source(1), 1)
    steps = iter(range(10))

    def fail():
        if next(steps) == 4:
            raise error

    with pytest.raises(type(error), match="of the engine"):
        sync(disk, Source(2, watch=fail), 2)
    assert names(tmp_path / "weights") == ["version-000001"]


def test_requests_go_on_while_it_writes(disk, monkeypatch):
    """The event loop is free: what a slow disk waits for is done there."""
    written, served = core_rl.builtin.disk._save, threading.Event()

    def slow(bucket, file):
        assert served.wait(60)
        written(bucket, file)

    async def main():
        asyncio.get_running_loop().call_later(0.01, served.set)
        await disk.sync(Source(), Target(), 1)

    monkeypatch.setattr(core_rl.builtin.disk, "_save", slow)
    asyncio.run(main())


def test_a_full_disk_is_one_line(disk, tmp_path, monkeypatch):
    """When the index is written, and, with the words that safetensors has for it, when a file of tensors is."""
    root = str(tmp_path / "weights")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(RunError) as index:
        sync(disk, Source(), 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        with pytest.raises(RunError) as tensors:
            sync(disk, Source(), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert str(index.value) == f"weight_transport.dir: cannot write the weights to {root}: No space left on device"
    assert str(tensors.value).startswith(f"weight_transport.dir: cannot write the weights to {root}: ")
    assert "File too large" in str(tensors.value)
    assert "\n" not in str(tensors.value)
    assert names(tmp_path / "weights") == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    """A file stands in its place."""
    (tmp_path / "weights").touch()

    with pytest.raises(RunError, match=r"^weight_transport\.dir: cannot write the weights to .*/weights: Not a directory$"):
        sync(Disk(DiskConfig(dir=str(tmp_path / "weights"))), Source(), 1)


def test_a_tensor_that_is_lost_is_named(disk):
    """And the update stops the run."""
    with pytest.raises(RunError, match=r"disk: at version 7 the rollout engine .*does not serve .*: layer\.2 is"):
        sync(disk, Source(), 7, Target(loses="layer.2"))


def test_a_folder_of_its_own_goes_with_it():
    """Without a word: a warning would be an error here."""
    disk = Disk(DiskConfig())
    sync(disk, Source(), 1)
    root = disk._root()
    before = names(root)
    del disk
    gc.collect()

    assert before == ["version-000001"]
    assert not root.exists()
