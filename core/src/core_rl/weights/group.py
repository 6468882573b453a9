"""A torch.distributed group of a trainer and the workers of rollout engines, beside whatever groups each side has of its own.

Rank 0 sends. The rendezvous is the one of the field (TCP store, the group's name before every key), so that a server that knows it,
as SGLang does, joins by its own means.
"""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.weights.buckets import TensorSpec

if TYPE_CHECKING:
    import torch


@attrs.frozen(kw_only=True)
class GroupPlace:
    """Where to join. `rank` is that of the first worker of the engine; its others follow."""

    address: str
    port: int
    rank: int
    world_size: int
    name: str
    backend: str
    """gloo or nccl."""
    timeout_s: float = 300.0


def join(place: GroupPlace, *, offset: int = 0) -> Any:
    """The group. Returns when all its members have joined."""
    dist, c10d = importlib.import_module("torch.distributed"), _c10d()
    timeout = dt.timedelta(seconds=place.timeout_s)
    rank = place.rank + offset
    server = dist.TCPStore(place.address, place.port, place.world_size, is_master=rank == 0, timeout=timeout, use_libuv=True)
    store = c10d.PrefixStore(place.name, server)
    group, _ = c10d._new_process_group_helper(  # noqa: SLF001 - what the field joins with; torch has no public way beside a default group
        place.world_size, rank, [], c10d.Backend(place.backend), store, group_name=place.name, timeout=timeout
    )
    c10d._world.pg_group_ranks[group] = {member: member for member in range(place.world_size)}  # noqa: SLF001
    return group


def leave(group: Any) -> None:
    """Its connections and its port are free again."""
    _c10d().destroy_process_group(group)


def send(group: Any, tensors: Sequence[tuple[str, torch.Tensor]], *, device: torch.device) -> None:
    """From rank 0, one bucket. Returns when it is on its way to all."""
    waiting = [_broadcast(group, tensor.detach().to(device).contiguous()) for _, tensor in tensors]
    for work, _ in waiting:
        work.wait()


def receive(group: Any, specs: Sequence[TensorSpec], *, device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    """The bucket that rank 0 sends."""
    waiting = [(spec.name, *_broadcast(group, spec.empty(device))) for spec in specs]
    for name, work, tensor in waiting:
        work.wait()
        yield name, tensor


def _broadcast(group: Any, tensor: torch.Tensor) -> tuple[Any, torch.Tensor]:
    import torch.distributed as dist

    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = 0, 0
    return group.broadcast([tensor], options), tensor


def _c10d() -> Any:
    """torch's module, most of which it types as its own."""
    return importlib.import_module("torch.distributed.distributed_c10d")
