"""What a rejection says of its weights and of what it dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from core_rl.roles.scoring import Verdict

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch


def weight_metrics(name: str, weights: torch.Tensor, mask: torch.Tensor) -> dict[str, float]:
    """`<name>/weight_mean`, `weight_max`, `ess` (1 / mean((w / mean w)^2): 1 when all weights agree) and `zero_frac`."""
    chosen = weights[mask].double()
    if chosen.numel() == 0:
        return {}
    mean = chosen.mean()
    square = chosen.square().mean()
    return {
        f"{name}/weight_mean": float(mean),
        f"{name}/weight_max": float(chosen.max()),
        f"{name}/ess": float(mean.square() / square) if square > 0 else 0.0,
        f"{name}/zero_frac": float((chosen == 0).double().mean()),
    }


def dropped(name: str, keep: torch.Tensor, mask: torch.Tensor) -> dict[str, float]:
    """`<name>/dropped_frac`: tokens of the mask that are left out."""
    return {f"{name}/dropped_frac": float((mask & ~keep).sum() / mask.sum().clamp(min=1))}


def held_back(name: str, keep: torch.Tensor, batch: PackedBatch, action: Literal["zero", "mask"]) -> Verdict:
    """What is not kept counts 0 with the denominators as they are, or leaves them too."""
    metrics = dropped(name, keep, batch.loss_mask)
    if action == "zero":
        return Verdict(keep=torch.ones_like(keep), weights=keep.float(), metrics=metrics)
    return Verdict(keep=keep, metrics=metrics)
