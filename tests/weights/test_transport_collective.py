"""The weight transport of a network, to a worker in another process."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
import torch

from core_rl.builtin.collective import Collective
from core_rl.builtin.config import CollectiveConfig
from core_rl.errors import RunError
from core_rl.weights.group import leave

WORKER = Path(__file__).with_name("group_worker.py")


class Source:
    def __init__(self, seed):
        generator = torch.Generator().manual_seed(seed)
        self.tensors = {f"layer.{index}": torch.randn(300, 1000, generator=generator) for index in range(4)}
        self.tensors["half"] = torch.randn(40, 6, generator=generator).bfloat16().T

    def export_weights(self):
        yield from self.tensors.items()


class Remote:
    """A rollout engine of one server with one worker."""

    def __init__(self, worker):
        self.worker, self.server, self.calls = worker, "a#1", []
        self.loses = self.fails = self.hangs = None
        self.joined, self.dtypes = [], {}

    async def ask(self, **asked):
        def talk():
            self.worker.stdin.write(json.dumps(asked) + "\n")
            self.worker.stdin.flush()
            return json.loads(self.worker.stdout.readline())

        return await asyncio.to_thread(talk)

    async def begin_update(self):
        self.calls.append("begin")

    def members(self):
        return {self.server: 1}

    async def join_group(self, place):
        if self.hangs == "join":
            return
        self.joined.append((place.name, place.port, place.world_size))
        await self.ask(join=attrs.asdict(attrs.evolve(place, rank=1)))

    async def update_from_group(self, specs):
        self.asked = {"receive": [spec.to_json() for spec in specs], "loses": self.loses}
        if self.hangs == "update":
            await asyncio.Event().wait()
        await self.ask(**self.asked)
        self.calls.append(len(specs))
        if self.fails:
            raise RunError(self.fails)

    async def end_update(self, version):
        self.calls.append(version)

    async def fingerprint(self):
        found, self.dtypes = await self.ask()
        return found


@pytest.fixture(scope="module")
def worker():
    with subprocess.Popen([sys.executable, "-W", "error", str(WORKER)], stdin=-1, stdout=-1, text=True) as child:
        child.stdout.readline()
        yield child
        child.stdin.close()


@pytest.fixture
def transport():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    made = Collective(CollectiveConfig(backend="gloo", port=port, bucket_mb=2, timeout_s=20.0))
    yield made
    if made._group is not None:
        leave(made._group)


def test_what_arrives_is_what_was_sent(worker, transport):
    """Buckets in order between begin and end; one group for many updates, and another one, at the same port, for another server."""
    remote = Remote(worker)

    async def main():
        reports = [await transport.sync(Source(seed), remote, seed) for seed in (1, 2)]
        remote.server = "a#2"
        return [*reports, await transport.sync(Source(3), remote, 3)]

    reports = asyncio.run(main())

    assert [report.version for report in reports] == [1, 2, 3]
    assert {report.num_bytes for report in reports} == {4 * 300 * 1000 * 4 + 240 * 2}
    assert remote.calls == ["begin", 2, 2, 1, 1, "begin", 2, 2, 1, 2, "begin", 2, 2, 1, 3]
    assert len({name for name, _, _ in remote.joined}) == 2
    assert [(port, size) for _, port, size in remote.joined] == [(transport.options.port, 2)] * 2
    assert remote.dtypes == {
        **dict.fromkeys(("layer.0", "layer.1", "layer.2", "layer.3"), "torch.float32"),
        "half": "torch.bfloat16",
    }


def test_a_tensor_that_is_lost_is_named(worker, transport):
    """The worker has zeros in its place."""
    remote = Remote(worker)
    remote.loses = "layer.2"

    with pytest.raises(RunError, match=r"collective: at version 7 the rollout engine .*does not serve .*layer\.2 is"):
        asyncio.run(transport.sync(Source(1), remote, 7))


def test_after_a_failure_the_group_is_made_anew(worker):
    """The engine's own error is the one that is raised."""
    remote, transport = Remote(worker), Collective(CollectiveConfig(backend="gloo", timeout_s=20.0))

    async def main():
        remote.fails = "no server is left"
        with pytest.raises(RunError, match="no server is left"):
            await transport.sync(Source(1), remote, 1)
        remote.fails = None
        await transport.sync(Source(2), remote, 2)

    asyncio.run(main())
    leave(transport._group)

    assert len({name for name, _, _ in remote.joined}) == 2


@pytest.mark.parametrize("where", ["join", "update"])
def test_a_run_ends_when_the_engine_has_failed(where):
    """Though the trainer's own side of it waits for ten minutes."""
    script = Path(__file__).with_name("failing_trainer.py")
    ended = subprocess.run([sys.executable, script, where], capture_output=True, text=True, timeout=120, check=True)

    assert ended.stdout.strip() == where


def test_a_worker_that_does_not_answer_ends_the_update(worker, transport):
    """While it joins, and while it should receive: one line says which."""
    remote = Remote(worker)

    async def main():
        await transport.sync(Source(1), remote, 1)
        group = transport._group
        transport.options = attrs.evolve(transport.options, timeout_s=0.3)
        remote.hangs = "update"
        with pytest.raises(
            RunError, match=r"collective: version 2 did not reach every worker of the rollout engine: no answer"
        ):
            await transport.sync(Source(2), remote, 2)
        await remote.ask(**remote.asked)  # so that the sender's thread ends before its own time-out
        leave(group)
        remote.hangs = "join"
        with pytest.raises(RunError, match=r"not every worker of the rollout engine has joined at 127\.0\.0\.1:\d+: "):
            await transport.sync(Source(2), remote, 2)

    asyncio.run(main())
