"""torch.distributed's default group, joined once in a process, and the device that goes with it."""

from __future__ import annotations

import datetime as dt
import os
from typing import Any

import attrs
import torch
import torch.distributed as dist

from core_rl.errors import RunError, UserError
from core_rl.workers.ranks import Ranks

TIMEOUT_S = 1800
"""Of a collective. A worker that dies ends its group at once (the launcher sees to it); this bounds one that hangs."""


@attrs.frozen(kw_only=True)
class Membership:
    """This process in the default group."""

    ranks: Ranks
    device: torch.device
    """Of this process: the GPU of its local rank, or the CPU."""

    @property
    def world_size(self) -> int:
        return self.ranks.world_size


def join(device: str = "auto") -> Membership:
    """Make this process a member of the default group; of a group of one where no launcher has set its place.

    `device` is auto, cpu or cuda. A second call, by another engine of the process, finds the group that is there.

    Raises:
        UserError: cuda was asked for and there is none for this rank; an engine before has joined with another device.
    """
    ranks = Ranks.of_environment()
    found = pick_device(device, ranks)
    backend = "cpu:gloo,cuda:nccl" if found.type == "cuda" else "gloo"
    if dist.is_initialized():
        if found.type == "cuda" and dist.get_backend() == "gloo":
            message = (
                "train_engine.device: this process is in a gloo group already, which does not serve cuda tensors: engines that "
                "share workers take one kind of device"
            )
            raise UserError(message)
        return Membership(ranks=ranks, device=found)
    if found.type == "cuda":
        torch.cuda.set_device(found)
    timeout = dt.timedelta(seconds=TIMEOUT_S)
    if "MASTER_ADDR" not in os.environ:
        dist.init_process_group(backend, store=_alone(), rank=0, world_size=1, timeout=timeout)
        return Membership(ranks=ranks, device=found)
    try:
        dist.init_process_group(backend, rank=ranks.rank, world_size=ranks.world_size, timeout=timeout)
    except (dist.DistError, RuntimeError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ.get('MASTER_PORT', '?')}"
        message = (
            f"rank {ranks.rank} of {ranks.world_size} cannot join the {backend} group at {where}: {str(error).splitlines()[0]}"
        )
        raise RunError(message) from error
    return Membership(ranks=ranks, device=found)


def _alone() -> Any:
    """No port, no file: nobody else is to come."""
    return torch.distributed.HashStore()  # type: ignore[attr-defined]


def pick_device(name: str, ranks: Ranks) -> torch.device:
    """auto is the GPU of the local rank where there are GPUs."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "cpu" or (name == "auto" and count == 0):
        return torch.device("cpu")
    if name not in {"auto", "cuda"}:
        message = f"train_engine.device: expected auto, cpu or cuda, found {name!r}"
        raise UserError(message)
    if ranks.local_rank >= count:
        message = (
            f"train_engine.device: worker {ranks.local_rank} of this machine has no GPU of its own, torch sees {count}: "
            f"start {count} workers, or take device: cpu"
            if count
            else "train_engine.device: cuda is not there; take device: cpu"
        )
        raise UserError(message)
    return torch.device("cuda", ranks.local_rank)


def leave() -> None:
    """Give the default group up, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()
