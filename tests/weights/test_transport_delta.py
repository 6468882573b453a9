"""The weight transport of changes, from a train engine to a rollout engine that applies them."""

from __future__ import annotations

import asyncio

import pytest
import torch

from core_rl.builtin.config import DeltaConfig
from core_rl.builtin.delta import Delta
from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint
from core_rl.weights.delta import Receiver


class Source:
    def __init__(self):
        generator = torch.Generator().manual_seed(3)
        self.tensors = {f"layer.{index}": torch.randn(1000, 700, generator=generator).bfloat16() for index in range(3)}

    def export_weights(self):
        yield from self.tensors.items()

    def step(self):
        """In place: 7 elements of one weight, one of them among those that a fingerprint looks at."""
        self.tensors["layer.1"].view(-1)[:7] += 1.0


class Target:
    """`loses` the changes of a weight."""

    def __init__(self):
        self.server, self.loses, self.changes, self.buckets, self.version = "a#1", None, Receiver(), [], None

    async def begin_update(self):
        self.buckets.append(0)

    def members(self):
        return {self.server: 1}

    async def update_delta(self, changes):
        self.buckets[-1] += 1
        list(self.changes.apply([(name, tensor) for name, tensor in changes if name.rpartition("|")[0] != self.loses]))

    async def end_update(self, version):
        self.version = version

    async def fingerprint(self):
        return fingerprint(self.changes.weights())


def agree(source, target):
    found = dict(target.changes.weights())
    return found.keys() == source.tensors.keys() and all(torch.equal(found[name], source.tensors[name]) for name in found)


WHOLE = 3 * (700_000 * 2 + 16)


def test_what_changed_arrives():
    """All at first, then what changed, then nothing."""
    source, target, transport = Source(), Target(), Delta(DeltaConfig(bucket_mb=1))

    async def main():
        reports = [await transport.sync(source, target, 1)]
        source.step()
        reports.append(await transport.sync(source, target, 2))
        reports.append(await transport.sync(source, target, 3))
        return reports

    reports = asyncio.run(main())

    assert [(report.version, report.num_bytes) for report in reports] == [(1, WHOLE), (2, 7 * 6 + 16), (3, 0)]
    assert target.buckets == [3, 1, 0]
    assert target.version == 3
    assert agree(source, target)


def test_a_server_that_came_back_gets_all():
    """Its name is another one then; those that were there take all as well."""
    source, target, transport = Source(), Target(), Delta(DeltaConfig())

    async def main():
        await transport.sync(source, target, 1)
        source.step()
        target.server, target.changes = "a#2", Receiver()
        return await transport.sync(source, target, 2)

    assert asyncio.run(main()).num_bytes == WHOLE
    assert agree(source, target)


def test_a_weight_that_is_lost_is_named():
    """At once where it is missing or its fingerprint is another; and the update after a failure has everything."""
    source, target, transport = Source(), Target(), Delta(DeltaConfig())

    async def main():
        target.loses = "layer.2"
        with pytest.raises(RunError, match=r"delta: at version 1 .* does not serve .*: layer\.2 is missing on the second side"):
            await transport.sync(source, target, 1)
        target.loses = None
        await transport.sync(source, target, 2)
        source.step()
        target.loses = "layer.1"
        with pytest.raises(RunError, match=r"delta: at version 3 .* does not serve .*: layer\.1 is"):
            await transport.sync(source, target, 3)
        target.loses = None
        return await transport.sync(source, target, 4)

    assert asyncio.run(main()).num_bytes == WHOLE
    assert agree(source, target)


def test_a_loss_that_no_fingerprint_sees_is_found_at_the_next_change():
    """Of elements between those that a fingerprint looks at."""
    source, target, transport = Source(), Target(), Delta(DeltaConfig())

    async def main():
        await transport.sync(source, target, 1)
        source.tensors["layer.1"].view(-1)[1:5] += 1.0
        target.loses = "layer.1"
        await transport.sync(source, target, 2)
        target.loses = None
        source.tensors["layer.1"].view(-1)[2:3] += 1.0
        with pytest.raises(RunError, match=r"the change of layer\.1 belongs to another weight"):
            await transport.sync(source, target, 3)

    asyncio.run(main())
