"""The weight transport that sends only what changed, with a checksum of every weight that it touches."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from core_rl.weights.delta import Sender, whole_changes
from core_rl.weights.proof import Sent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core_rl.builtin.config import DeltaConfig
    from core_rl.roles.parts import SyncReport
    from core_rl.roles.rollout import DeltaReceiver, RolloutEngine
    from core_rl.roles.train import TrainEngine


class Delta:
    """A `core_rl.roles.parts.WeightTransport`. The first update, and one after a failure, has everything."""

    def __init__(self, options: DeltaConfig) -> None:
        self.bucket = options.bucket_mb * 2**20
        self._sender = Sender()
        self._members: Mapping[str, int] = {}

    async def sync(self, source: TrainEngine, target: RolloutEngine, version: int) -> SyncReport:
        """Raises `RunError` when a change was lost: a checksum or the fingerprint of all weights differs."""
        receiver = cast("DeltaReceiver", target)
        sent = Sent(transport="delta", version=version)
        await receiver.begin_update()
        if receiver.members() != self._members:  # a server that came back knows nothing of what was sent before
            self._sender.forget()
            self._members = receiver.members()
        done = False
        try:
            for bucket in whole_changes(self._sender.changes(sent.watched(source.export_weights())), self.bucket):
                sent.count(bucket)
                await receiver.update_delta(bucket)
            await receiver.end_update(version)
            report = await sent.proven(receiver)
            done = True
        finally:
            if not done:
                self._sender.forget()
        return report
