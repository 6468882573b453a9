"""The weight transport of one machine: the trainer's weights go to the sampler through memory, some tensors at a time.

Workers of the launcher `local` hand them over as shared memory, and servers on this machine read them from there; the whole model is
never in one place besides the two engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.weights.proof import Sent

if TYPE_CHECKING:
    from core_rl.builtin.config import SharedMemoryConfig
    from core_rl.roles.parts import SyncReport
    from core_rl.roles.rollout import RolloutEngine
    from core_rl.roles.train import TrainEngine


class SharedMemory:
    """A `core_rl.roles.parts.WeightTransport` for a rollout engine with weights of its own."""

    def __init__(self, options: SharedMemoryConfig) -> None:
        self.bucket = options.bucket_mb * 2**20

    async def sync(self, source: TrainEngine, target: RolloutEngine, version: int) -> SyncReport:
        """Raises `RunError` when the weights that the sampler serves afterwards are not those that were sent."""
        sent = Sent(transport="shared_memory", version=version)
        await target.begin_update()
        for bucket in sent.buckets(source.export_weights(), self.bucket):
            await target.update(bucket)
        await target.end_update(version)
        return await sent.proven(target)
