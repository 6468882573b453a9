"""The norm of gradients that are in shards, and clipping by it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate

from core_rl_fsdp._shards import local


def total_norm(grads: Sequence[torch.Tensor]) -> torch.Tensor:
    """The norm of all gradients together, the same on every rank. float64: shards are summed in another order on other numbers of ranks.

    A part that several ranks have alike counts once.
    """
    if not grads:
        return torch.zeros(())
    norms = [torch.linalg.vector_norm(local(grad), dtype=torch.float64) for grad in grads]
    squares = torch.stack([norm.square() / _copies(grad) for norm, grad in zip(norms, grads, strict=True)]).sum()
    if dist.get_world_size() > 1:
        squares = squares.to(grads[0].device)
        dist.all_reduce(squares)
    return squares.sqrt().cpu()


def _copies(grad: torch.Tensor) -> int:
    """How many ranks have the same part of it."""
    if not isinstance(grad, DTensor):
        return dist.get_world_size()
    sharded = 1
    for size, placement in zip(grad.device_mesh.shape, grad.placements, strict=True):
        sharded *= 1 if isinstance(placement, Replicate) else size
    return dist.get_world_size() // sharded


@torch.no_grad()
def clip(grads: Sequence[torch.Tensor], norm: torch.Tensor, max_norm: float | None) -> None:
    """Scale them down to `max_norm` where they are above it."""
    if max_norm is not None and norm > max_norm:
        torch._foreach_mul_([local(grad) for grad in grads], float(max_norm / norm))
