"""The weight transport that copies: what arrives is what was sent, and what does not arrive stops the run."""

from __future__ import annotations

import asyncio

import pytest
import torch

from core_rl.builtin.config import SharedMemoryConfig
from core_rl.builtin.shared_memory import SharedMemory
from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint
from core_rl.weights.buckets import buckets


class Source:
    def __init__(self, tensors):
        self.tensors = tensors

    def export_weights(self):
        yield from self.tensors.items()


class Target:
    """Keeps what it gets; `loses` a tensor, or `rounds` all."""

    def __init__(self, loses=None, rounds=False):
        self.weights, self.version, self.calls = {}, 0, []
        self.loses, self.rounds = loses, rounds

    async def begin_update(self):
        self.calls.append("begin")

    async def update(self, tensors):
        self.calls.append(len(tensors))
        for name, tensor in tensors:
            value = torch.zeros_like(tensor) if name == self.loses else tensor.clone()
            self.weights[name] = value.bfloat16().float() if self.rounds else value

    async def end_update(self, version):
        self.calls.append("end")
        self.version = version

    async def fingerprint(self):
        return fingerprint(self.weights.items())


def tensors():
    generator = torch.Generator().manual_seed(3)
    return {f"layer.{index}": torch.randn(300, 1000, generator=generator) for index in range(5)}


def test_what_arrives_is_what_was_sent():
    """In buckets of the given size, between begin and end, with the version."""
    source, target = Source(tensors()), Target()

    report = asyncio.run(SharedMemory(SharedMemoryConfig(bucket_mb=2)).sync(source, target, 7))

    assert target.calls == ["begin", 2, 2, 1, "end"]
    assert target.version == report.version == 7
    assert report.num_bytes == 5 * 300 * 1000 * 4
    assert all(torch.equal(target.weights[name], tensor) for name, tensor in source.tensors.items())


@pytest.mark.parametrize("fault", [{"loses": "layer.3"}, {"rounds": True}])
def test_what_does_not_arrive_stops_the_run(fault):
    """The message names the tensor and the version."""
    with pytest.raises(RunError, match=r"version 7 .* does not serve .* layer\.[03] is"):
        asyncio.run(SharedMemory(SharedMemoryConfig()).sync(Source(tensors()), Target(**fault), 7))


def test_a_tensor_above_the_bucket_goes_alone():
    """Nothing is lost at the end, and nothing comes of nothing."""
    stream = [("a", torch.zeros(10)), ("b", torch.zeros(1000)), ("c", torch.zeros(1))]

    assert [[name for name, _ in bucket] for bucket in buckets(iter(stream), 100)] == [["a", "b"], ["c"]]
    assert list(buckets(iter(()), 100)) == []
