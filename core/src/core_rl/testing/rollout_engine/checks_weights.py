"""New weights: they arrive, are seen, and every token says which ones wrote it."""

from __future__ import annotations

import asyncio
from typing import Any

from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint, same
from core_rl.testing.rollout_engine.bench import FREE, RolloutBench, expect, refused
from core_rl.testing.rollout_engine.checks_control import LONG


class Trainer:
    """What a weight transport reads: `module` of the bench."""

    def __init__(self, bench: RolloutBench, *, without: str | None = None) -> None:
        self._bench = bench
        self._without = without

    def export_weights(self) -> Any:
        yield from ((name, tensor) for name, tensor in self._bench.weights().items() if name != self._without)


async def update(bench: RolloutBench) -> None:
    """Log-probabilities follow new weights, tokens carry their version, and both sides' fingerprints agree."""
    for seed in (1, 2):
        bench.move_weights(seed=seed)
        version = await bench.send(list(bench.weights().items()))
        found = await bench.sample(n=3)
        bench.compare("update", found, FREE)
        expect({span.version for c in found for span in c.versions} == {version}, "tokens carry another version")
        difference = same(fingerprint(bench.weights().items()), await bench.engine.fingerprint())
        expect(difference is None, f"fingerprints differ: {difference}")


async def update_in_parts(bench: RolloutBench) -> None:
    """Weights may come in any number of buckets."""
    bench.move_weights(seed=3)
    bench.version += 1
    await bench.engine.begin_update()
    for item in bench.weights().items():
        await bench.engine.update([item])
    await bench.engine.end_update(bench.version)
    bench.compare("update_in_parts", await bench.sample(n=3), FREE)


async def update_in_the_middle(bench: RolloutBench) -> None:
    """A request that is in flight goes on with the new weights, and its tokens say where they begin."""
    try:
        for delay in (0.02, 0.05, 0.1, 0.2, 0.4, 0.01, 0.005):
            before = bench.version
            bench.move_weights(seed=4)
            task = asyncio.ensure_future(bench.sample(LONG, n=2, seed=61))
            await asyncio.sleep(delay)
            after = await bench.send(list(bench.weights().items()))
            found = await task
            for completion in found:
                expect(completion.finish_reason == "length", f"finish_reason {completion.finish_reason}")
                expect(len(completion.tokens) == 200, "tokens were lost")
            if all([span.version for span in c.versions] == [before, after] for c in found):
                return
        message = "no request had tokens of two versions"
        raise AssertionError(message)
    finally:
        await bench.send(list(bench.weights().items()))


async def lost_tensor(bench: RolloutBench) -> None:
    """A weight that did not arrive is seen: `sync` raises an error that names it."""
    from core_rl.builtin.config import SharedMemoryConfig
    from core_rl.builtin.shared_memory import SharedMemory

    lost = "model.layers.1.mlp.up_proj.weight"
    bench.move_weights(seed=5)

    class Losing:
        """The engine, but for one tensor."""

        def __getattr__(self, name: str) -> Any:
            return getattr(bench.engine, name)

        async def update(self, tensors: Any) -> None:
            await bench.engine.update([(name, tensor) for name, tensor in tensors if name != lost])

    engine: Any = Losing()
    trainer: Any = Trainer(bench)
    bench.version += 1
    words = await refused(SharedMemory(SharedMemoryConfig()).sync(trainer, engine, bench.version), RunError)
    expect(lost in words, f"the message does not name {lost}: {words}")
    await bench.send(list(bench.weights().items()))
    bench.compare("lost_tensor", await bench.sample(n=2), FREE)


async def disk(bench: RolloutBench) -> None:
    """Through a folder."""
    from core_rl.builtin.config import DiskConfig
    from core_rl.builtin.disk import Disk

    await _through(bench, Disk(DiskConfig(bucket_mb=1)), "disk")


async def shared_memory(bench: RolloutBench) -> None:
    """Through this machine's memory."""
    from core_rl.builtin.config import SharedMemoryConfig
    from core_rl.builtin.shared_memory import SharedMemory

    await _through(bench, SharedMemory(SharedMemoryConfig(bucket_mb=1)), "shared_memory")


async def delta(bench: RolloutBench) -> None:
    """By what changed: everything at first, little when little changed."""
    from core_rl.builtin.config import DeltaConfig
    from core_rl.builtin.delta import Delta

    transport = Delta(DeltaConfig(bucket_mb=1))
    await _through(bench, transport, "delta")
    whole = sum(tensor.numel() * tensor.element_size() for tensor in bench.weights().values())
    name, tensor = next((name, tensor) for name, tensor in bench.module.named_parameters() if tensor.ndim == 2)
    tensor.data[0, :4] += 0.5
    trainer: Any = Trainer(bench)
    bench.version += 1
    report = await transport.sync(trainer, bench.engine, bench.version)
    expect(report.num_bytes < whole / 100, f"{report.num_bytes} bytes for four elements of {name}")
    bench.compare("delta", await bench.sample(n=2), FREE)
    bench.version += 1
    report = await transport.sync(trainer, bench.engine, bench.version)
    expect(report.num_bytes == 0, f"{report.num_bytes} bytes for nothing")
    found = await bench.sample()
    bench.compare("delta", found, FREE)
    expect(found[0].versions[0].version == bench.version, "an update of nothing is an update")


async def collective(bench: RolloutBench) -> None:
    """Through a torch.distributed group."""
    from core_rl.builtin.collective import Collective
    from core_rl.builtin.config import CollectiveConfig

    await _through(bench, Collective(CollectiveConfig(backend="gloo", bucket_mb=1, timeout_s=60.0)), "collective")


async def _through(bench: RolloutBench, transport: Any, name: str) -> None:
    trainer: Any = Trainer(bench)
    for seed in (6, 7):
        bench.move_weights(seed=seed)
        bench.version += 1
        await transport.sync(trainer, bench.engine, bench.version)
        found = await bench.sample(n=3)
        bench.compare(name, found, FREE)
        expect({span.version for c in found for span in c.versions} == {bench.version}, "tokens carry another version")
