"""The weight transport of a network: a torch.distributed group of the trainer and every worker of the rollout engine (gloo or nccl)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from core_rl.daemon_threads import DaemonThreads
from core_rl.errors import RunError, UserError
from core_rl.ports import free_port
from core_rl.weights.buckets import TensorSpec
from core_rl.weights.group import GroupPlace, join, leave, send
from core_rl.weights.proof import Sent

if TYPE_CHECKING:
    import torch

    from core_rl.builtin.config import CollectiveConfig
    from core_rl.roles.parts import SyncReport
    from core_rl.roles.rollout import GroupReceiver, RolloutEngine
    from core_rl.roles.train import TrainEngine


class Collective:
    """A `core_rl.roles.parts.WeightTransport`. The group is made with the first update, and anew when an engine's workers have changed."""

    def __init__(self, options: CollectiveConfig) -> None:
        self.options = options
        self._group: Any = None
        self._members: Mapping[str, int] = {}
        self._threads = DaemonThreads("weights")  # one whose other side has failed waits for its time-out; the run must not

    async def sync(self, source: TrainEngine, target: RolloutEngine, version: int) -> SyncReport:
        """Raises `RunError` when a member does not answer in time, or serves something else afterwards."""
        receiver = cast("GroupReceiver", target)
        device = self._device()
        await receiver.begin_update()
        if self._group is None or receiver.members() != self._members:
            await self._gather(receiver)
        group, self._group = self._group, None  # of a group that has failed, nothing more is asked
        sent = Sent(transport="collective", version=version)
        for bucket in sent.buckets(source.export_weights(), self.options.bucket_mb * 2**20):
            specs = [TensorSpec.of(name, tensor) for name, tensor in bucket]
            try:
                async with asyncio.timeout(self.options.timeout_s):
                    sending = self._threads.call(partial(send, group, bucket, device=device))
                    await asyncio.gather(receiver.update_from_group(specs), sending)
            except (TimeoutError, RuntimeError) as error:
                message = f"weight_transport collective: version {version} did not reach every worker of the rollout engine: {str(error) or 'no answer in time'}"
                raise RunError(message) from error
        self._group = group
        await receiver.end_update(version)
        return await sent.proven(receiver)

    async def _gather(self, receiver: GroupReceiver) -> None:
        if self._group is not None:
            leave(self._group)
            self._group = None  # its port is free when nobody holds it, nor a thread that has just called `leave`
        self._members = receiver.members()
        place = GroupPlace(
            address=self.options.address,
            port=self.options.port or free_port(self.options.address),
            rank=0,
            world_size=1 + sum(self._members.values()),
            name=f"core-rl-weights-{secrets.token_hex(4)}",  # no two groups of a process have one name
            backend=self._backend(),
            timeout_s=self.options.timeout_s,
        )
        joined = self._threads.call(partial(join, place))
        try:
            self._group, _ = await asyncio.gather(joined, receiver.join_group(place))
        except RuntimeError as error:
            message = f"weight_transport collective: not every worker of the rollout engine has joined at {place.address}:{place.port}: {error}"
            raise RunError(message) from error

    def _backend(self) -> str:
        if self.options.backend != "auto":
            return self.options.backend
        return "nccl" if self._device().type == "cuda" else "gloo"

    def _device(self) -> torch.device:
        import torch

        if self.options.backend == "nccl" and not torch.cuda.is_available():
            message = "weight_transport.backend: nccl needs a GPU, and torch sees none: take gloo"
            raise UserError(message)
        return torch.device("cuda" if torch.cuda.is_available() and self.options.backend != "gloo" else "cpu")
