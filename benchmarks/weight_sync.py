"""Seconds and GB/s of one weight update, by transport and size, to a receiver in a process of its own; beside memcpy and the disk.

The transports are core-rl's own, with fingerprints of both sides. Weights are random bfloat16 tensors in the shapes of a Llama; both
sides use some hundred megabytes of memory again under many names, so that 14 GB of weights are sent on a machine that cannot hold them
twice. The receiver copies what it gets into its own memory, but for "read in place". Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import _machine
import attrs
import torch
from _cases import HERE
from safetensors import safe_open

from core_rl.builtin.collective import Collective
from core_rl.builtin.config import CollectiveConfig, DeltaConfig, DiskConfig, SharedMemoryConfig
from core_rl.builtin.delta import Delta
from core_rl.builtin.disk import Disk
from core_rl.builtin.shared_memory import SharedMemory
from core_rl.fingerprint import fingerprint
from core_rl.serving.config import PoolConfig
from core_rl.serving.pool import PoolEngine
from core_rl.weights.buckets import TensorSpec
from core_rl.weights.delta import Receiver
from core_rl.weights.group import GroupPlace, join, receive
from core_rl.weights.segment import Reader

RESULTS = HERE / "results"
POOL = 2**28
"""Elements of memory on each side, 512 MB."""
SHAPES = {  # hidden, intermediate, layers, vocabulary
    "0.135B": (576, 1536, 30, 49152),
    "1.5B": (1536, 8960, 28, 151936),
    "7B": (4096, 11008, 32, 32000),
}
CHANGED = 0.01
"""Share of the elements that an update changes, for `delta`."""


def layout(name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, intermediate, layers, vocabulary = SHAPES[name]
    yield "model.embed_tokens.weight", (vocabulary, hidden)
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield f"{prefix}self_attn.{part}.weight", (hidden, hidden)
        for part in ("gate_proj", "up_proj"):
            yield f"{prefix}mlp.{part}.weight", (intermediate, hidden)
        yield f"{prefix}mlp.down_proj.weight", (hidden, intermediate)
        yield f"{prefix}input_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)


class Ring:
    """Memory that tensors take their places in, one after the other, from the start again at its end."""

    def __init__(self) -> None:
        self.memory = torch.empty(POOL, dtype=torch.bfloat16).normal_()
        self._next = 0

    def tensor(self, shape: Sequence[int]) -> torch.Tensor:
        count = math.prod(shape)
        if self._next + count > POOL:
            self._next = 0
        place = self.memory[self._next : self._next + count].view(*shape)
        self._next += count
        return place


class Trainer:
    """What a transport reads."""

    def __init__(self, size: str, *, whole: bool) -> None:
        self.size = size
        self.ring = Ring()
        self.held = {name: self.ring.tensor(shape).clone() for name, shape in layout(size)} if whole else None

    def export_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        if self.held is not None:
            yield from self.held.items()
            return
        for name, shape in layout(self.size):
            yield name, self.ring.tensor(shape)

    def train(self) -> None:
        for tensor in (self.held or {}).values():
            flat = tensor.view(-1)
            flat[torch.randint(flat.numel(), (max(1, int(flat.numel() * CHANGED)),))] += 1.0


class Receiving:
    """What the receiving process does: every method is an operation that it is told."""

    def __init__(self, *, in_place: bool) -> None:
        self.in_place = in_place
        self.ring, self.reader, self.changed = Ring(), Reader(), Receiver()
        self.served: dict[str, float] = {}
        self.members: Any = None

    def begin(self, _: None) -> None:
        self.served.clear()

    def memory(self, note: dict[str, Any]) -> None:
        self._take(self.reader.read(note))

    def changes(self, note: dict[str, Any]) -> None:
        for _ in self.changed.apply(list(self.reader.read(note))):
            pass

    def disk(self, folder: str) -> None:
        for file in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(file, "pt") as opened:
                self._take((name, opened.get_tensor(name)) for name in opened.keys())  # noqa: SIM118 - not a mapping

    def join(self, place: GroupPlace) -> None:
        self.members = join(place)

    def group(self, specs: list[TensorSpec]) -> None:
        self._take(receive(self.members, specs, device=torch.device("cpu")))

    def fingerprint(self, _: None) -> dict[str, float]:
        return dict(self.served) or fingerprint(self.changed.weights())

    def _take(self, stream: Any) -> None:
        for name, tensor in stream:
            self.served.update(fingerprint([(name, tensor)]))
            if not self.in_place:
                self.ring.tensor(tensor.shape).copy_(tensor)


def serve(pipe: Any, in_place: bool) -> None:
    torch.set_num_threads(1)
    receiving = Receiving(in_place=in_place)
    while (message := pipe.recv()) is not None:
        operation, argument = message
        pipe.send(getattr(receiving, operation)(argument))


class Piped:
    """A `core_rl.serving.replica.Replica`, as far as an update goes."""

    name, workers, reads_memory = "receiver", 1, True

    def __init__(self, *, in_place: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, in_place), daemon=True)

    async def _ask(self, operation: str, argument: Any = None) -> Any:
        def exchange() -> Any:
            self._pipe.send((operation, argument))
            return self._pipe.recv()

        return await asyncio.to_thread(exchange)

    async def start(self) -> None:
        self._process.start()
        await self._ask("begin")

    async def health(self) -> None: ...

    async def recover(self) -> None: ...

    async def version(self) -> int | None:
        return None

    async def begin_update(self) -> None:
        await self._ask("begin")

    async def update(self, bucket: Any) -> None:
        await self._ask("memory", await bucket.note())

    async def update_delta(self, bucket: Any) -> None:
        await self._ask("changes", await bucket.note())

    async def update_from_disk(self, path: str) -> None:
        await self._ask("disk", path)

    async def join_group(self, place: GroupPlace) -> None:
        await self._ask("join", place)

    async def update_from_group(self, specs: Sequence[TensorSpec]) -> None:
        await self._ask("group", list(specs))

    async def end_update(self, version: int) -> None: ...

    async def fingerprint(self) -> Mapping[str, float]:
        found: Mapping[str, float] = await self._ask("fingerprint")
        return found

    async def close(self) -> None:
        self._pipe.send(None)
        self._process.join()


@attrs.frozen(kw_only=True)
class Way:
    make: Callable[[Path], Any]
    whole: bool = False
    """Both sides hold all weights."""
    in_place: bool = False
    """The receiver uses what it gets where it lies; else it copies it into memory of its own."""


WAYS = {
    "shared_memory, read in place": Way(make=lambda _: SharedMemory(SharedMemoryConfig()), in_place=True),
    "shared_memory": Way(make=lambda _: SharedMemory(SharedMemoryConfig())),
    "disk": Way(make=lambda folder: Disk(DiskConfig(dir=str(folder)))),
    "collective, gloo": Way(make=lambda _: Collective(CollectiveConfig(backend="gloo"))),
    "delta, 1 % changed": Way(make=lambda _: Delta(DeltaConfig()), whole=True),
}


async def measure(size: str, way: Way, *, rounds: int) -> list[tuple[float, int]]:
    """(seconds, bytes sent) of every round after a first one."""
    trainer = Trainer(size, whole=way.whole)
    replica: Any = Piped(in_place=way.in_place)
    pool = PoolEngine([replica], PoolConfig())
    await pool.start()
    found = []
    try:
        with tempfile.TemporaryDirectory(prefix="core-rl-bench-") as folder:
            transport = way.make(Path(folder))
            for version in range(rounds + 1):
                start = time.perf_counter()
                report = await transport.sync(trainer, pool, version)
                seconds = time.perf_counter() - start
                if version:
                    found.append((seconds, report.num_bytes))
                trainer.train()
    finally:
        await pool.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", action="append", choices=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dry-run", action="store_true", help="print, and leave the files in results/ as they are")
    args = parser.parse_args()
    torch.set_num_threads(1)  # the receiver has the other core
    limits = {"memcpy": memcpy_gbs(), "two memcpy": two_memcpy_gbs(), "disk write": disk_gbs()}
    rows = []
    for size in args.size or list(SHAPES):
        total = sum(math.prod(shape) for _, shape in layout(size)) * 2
        for name, way in WAYS.items():
            if way.whole and size == "7B":
                continue  # both sides hold all weights, and this machine cannot
            times = asyncio.run(measure(size, way, rounds=args.rounds))
            seconds = statistics.median(second for second, _ in times)
            sent = times[-1][1]
            rows.append({"size": size, "transport": name, "bytes": total, "sent": sent, "seconds": seconds})
            print(f"{size} {name}: {seconds:.2f} s, {total / seconds / 1e9:.2f} GB/s", flush=True)
    found = {"machine": _machine.describe(os.cpu_count() or 1), "versions": _machine.versions(), "limits": limits, "rows": rows}
    text = markdown(found)
    print(text)
    if not args.dry_run:
        (RESULTS / "weight_sync.json").write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "weight_sync.md").write_text(text)


def memcpy_gbs() -> float:
    """Bytes copied in a second by one thread, between two pieces of memory that no cache holds."""
    source, target = torch.empty(POOL, dtype=torch.bfloat16).normal_(), torch.empty(POOL, dtype=torch.bfloat16)
    return POOL * 2 / _machine.best_seconds(lambda: target.copy_(source), repeats=5) / 1e9


def two_memcpy_gbs() -> float:
    """The same of each of two processes that copy at once."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(2, torch.set_num_threads, (1,)) as pool:
        return statistics.mean(pool.starmap(memcpy_gbs, [(), ()], chunksize=1))


def disk_gbs() -> float:
    data = os.urandom(2**20) * 512
    with tempfile.TemporaryDirectory(prefix="core-rl-bench-") as folder:

        def write() -> None:
            with (Path(folder) / "file").open("wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())

        return len(data) / _machine.best_seconds(write, repeats=2) / 1e9


def markdown(found: dict[str, Any]) -> str:
    memcpy = found["limits"]["memcpy"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    lines = [
        "# Weight updates",
        "",
        f"{versions}. {found['machine']['text']}.",
        f"One thread copies {memcpy:.1f} GB/s here, each of two at once {found['limits']['two memcpy']:.1f}; a file is written and forced to the disk at {found['limits']['disk write']:.2f} GB/s.",
        "Median of the rounds; bfloat16; sender and receiver are two processes with one thread each.",
        "",
        "| parameters | GB | transport | GB sent | seconds | GB/s | of memcpy |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        speed = row["bytes"] / row["seconds"] / 1e9
        lines.append(
            f"| {row['size']} | {row['bytes'] / 1e9:.2f} | {row['transport']} | {row['sent'] / 1e9:.2f} | {row['seconds']:.2f} "
            f"| {speed:.2f} | {speed / memcpy:.2f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
