"""The weight transport that moves nothing: trainer and sampler hold the same tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint, same
from core_rl.roles.parts import SyncReport

if TYPE_CHECKING:
    from core_rl.roles.rollout import RolloutEngine
    from core_rl.roles.train import TrainEngine


class Shared:
    """Tells the sampler that its weights are new, and proves that they are the trainer's."""

    async def sync(self, source: TrainEngine, target: RolloutEngine, version: int) -> SyncReport:
        """Raises `RunError` when the two sides differ: they do not share their weights after all."""
        await target.begin_update()
        await target.end_update(version)
        difference = same(fingerprint(source.export_weights()), await target.fingerprint())
        if difference is not None:
            message = (
                f"weight_transport shared: at version {version} the train engine (first) and the rollout engine (second) hold "
                f"different weights: {difference}; they do not share their tensors, so choose another weight_transport"
            )
            raise RunError(message)
        return SyncReport(version=version, num_bytes=0)
