"""The optimizer over the master weights: AdamW or SGD, with torch's fused kernels; clipping; states that fit their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from core_rl_local.config import LocalTrainConfig


def build_optimizer(config: LocalTrainConfig, masters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
    """Weight decay is on matrices alone."""
    groups: list[dict[str, Any]] = [
        {"params": [p for p in masters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in masters if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)
    return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, fused=True)


def clip(params: Sequence[torch.Tensor], max_norm: float | None) -> torch.Tensor:
    """The norm of all gradients together; above `max_norm` they are scaled down to it."""
    grads = [p.grad for p in params if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(grads)
    if max_norm is not None and norm > max_norm:  # NaN is not above
        torch._foreach_mul_(grads, max_norm / norm)  # noqa: SLF001 - as torch.nn.utils.clip_grads_with_norm_ does
    return norm


def load_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Loads a state dict; every tensor of it then lies in memory as its weight does, which the fused kernels take for granted."""
    optimizer.load_state_dict(state)
    for param, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.shape == param.shape and value.stride() != param.stride():
                values[name] = torch.empty_like(param).copy_(value)


def move_state(optimizer: torch.optim.Optimizer, device: torch.device | str) -> None:
    for values in optimizer.state.values():
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                values[name] = value.to(device)
