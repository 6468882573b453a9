"""The optimizer over the slots of the master weights: AdamW or SGD with torch's fused kernels; clipping; states to save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from core_rl.errors import CheckpointError
from core_rl.train.config import OptimizerConfig


def build_optimizer(config: OptimizerConfig, slots: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
    """Weight decay is on matrices alone."""
    groups: list[dict[str, Any]] = [
        {"params": [p for p in slots if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in slots if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)
    return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, fused=True)


def clip(slots: Sequence[torch.Tensor], max_norm: float | None) -> torch.Tensor:
    """The norm of all gradients together; above `max_norm` they are scaled down to it."""
    grads = [p.grad for p in slots if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(grads)
    if max_norm is not None and norm > max_norm:  # NaN is not above
        torch._foreach_mul_(grads, max_norm / norm)
    return norm


def state_by_name(
    optimizer: torch.optim.Optimizer, slots: Mapping[str, torch.Tensor], masters: Mapping[str, torch.Tensor]
) -> dict[str, dict[str, torch.Tensor]]:
    """What the optimizer keeps of every weight, in the weight's own shape: it does not depend on how weights lie in memory."""
    return {
        name: {key: _turn(value, slot, masters[name]).contiguous() for key, value in optimizer.state[slot].items()}
        for name, slot in slots.items()
        if slot in optimizer.state
    }


def load_state(
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Mapping[str, torch.Tensor]],
    slots: Mapping[str, torch.Tensor],
    masters: Mapping[str, torch.Tensor],
) -> None:
    """The inverse of `state_by_name`."""
    unknown = sorted(set(state) - set(slots))
    if unknown:
        message = f"the checkpoint's optimizer knows {unknown[0]}, which this model does not train"
        raise CheckpointError(message)
    optimizer.state.clear()
    for name, values in state.items():
        slot = slots[name]
        optimizer.state[slot] = {
            key: _turn(value, masters[name], slot).contiguous().to(slot.device) for key, value in values.items()
        }


def move_state(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    for values in optimizer.state.values():
        for name, value in values.items():
            values[name] = value.to(device)


def _turn(value: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """From the shape of `source` to that of `target`; the counter of steps has neither."""
    turned = value.ndim == 2 and source is not target
    return value.t() if turned else value
