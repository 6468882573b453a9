"""Did the weights arrive? What was sent is noted on its way, and both sides' fingerprints are compared after every update."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint, same
from core_rl.roles.parts import SyncReport
from core_rl.weights.buckets import buckets, size_of

if TYPE_CHECKING:
    import torch

    from core_rl.roles.rollout import RolloutEngine

    Named = tuple[str, torch.Tensor]


@attrs.define(kw_only=True)
class Sent:
    """What one update has sent."""

    transport: str
    version: int
    fingerprint: dict[str, float] = attrs.field(factory=dict)
    num_bytes: int = 0

    def buckets(self, stream: Iterable[Named], limit: int) -> Iterator[list[Named]]:
        """Lists of at least `limit` bytes, noted."""
        for bucket in buckets(stream, limit):
            self.fingerprint |= fingerprint(bucket)
            self.count(bucket)
            yield bucket

    def watched(self, stream: Iterable[Named]) -> Iterator[Named]:
        """Every weight, noted; what is sent of it is to be counted."""
        for name, tensor in stream:
            self.fingerprint |= fingerprint([(name, tensor)])
            yield name, tensor

    def count(self, bucket: Sequence[Named]) -> None:
        self.num_bytes += sum(size_of(tensor) for _, tensor in bucket)

    async def proven(self, target: RolloutEngine) -> SyncReport:
        """Raises `RunError` when the rollout engine does not serve what the train engine has sent."""
        difference = same(self.fingerprint, await target.fingerprint())
        if difference is not None:
            message = (
                f"weight_transport {self.transport}: at version {self.version} the rollout engine (second) does not serve what the "
                f"train engine (first) has sent: {difference}"
            )
            raise RunError(message)
        return SyncReport(version=self.version, num_bytes=self.num_bytes)
