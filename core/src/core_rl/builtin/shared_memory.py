"""The weight transport of one machine: the trainer's weights go to the sampler through memory, some tensors at a time.

Workers of the launcher `local` hand them over as shared memory; the whole model is never in one place besides the two engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint, same
from core_rl.roles.parts import SyncReport

if TYPE_CHECKING:
    import torch

    from core_rl.builtin.config import SharedMemoryConfig
    from core_rl.roles.rollout import RolloutEngine
    from core_rl.roles.train import TrainEngine


class SharedMemory:
    """A `core_rl.roles.parts.WeightTransport` for a rollout engine with weights of its own."""

    def __init__(self, options: SharedMemoryConfig) -> None:
        self.bucket = options.bucket_mb * 2**20

    async def sync(self, source: TrainEngine, target: RolloutEngine, version: int) -> SyncReport:
        """Raises `RunError` when the weights that the sampler serves afterwards are not those that were sent."""
        sent: dict[str, float] = {}
        num_bytes = 0
        await target.begin_update()
        for bucket in buckets(source.export_weights(), self.bucket):
            sent |= fingerprint(bucket)
            num_bytes += sum(size_of(tensor) for _, tensor in bucket)
            await target.update(bucket)
        await target.end_update(version)
        difference = same(sent, await target.fingerprint())
        if difference is not None:
            message = (
                f"weight_transport shared_memory: at version {version} the rollout engine (second) does not serve what the train "
                f"engine (first) has sent: {difference}"
            )
            raise RunError(message)
        return SyncReport(version=version, num_bytes=num_bytes)


def buckets(stream: Iterator[tuple[str, torch.Tensor]], limit: int) -> Iterator[list[tuple[str, torch.Tensor]]]:
    """Lists of at least `limit` bytes, but for the last. At least one tensor in each."""
    bucket: list[tuple[str, torch.Tensor]] = []
    size = 0
    for name, tensor in stream:
        bucket.append((name, tensor))
        size += size_of(tensor)
        if size >= limit:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


def size_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
