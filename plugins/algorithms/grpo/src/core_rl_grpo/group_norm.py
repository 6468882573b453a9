"""Group-normalised rewards (GRPO, 2402.03300; Dr. GRPO, 2503.20783; LitePPO, 2508.08221).

S sequences, N tokens. Every token of sequence i gets

    A_i = clip((R_i - mean) / (std + eps), clip_low, clip_high)

with mean and std over the group of i, over the batch, or left out (`mean_level`, `std_level`), with or without R_i itself
(`leave_one_out`). R_i NaN (the reward failed) is in no statistic and has A_i = 0.

Where this differs from the formula:
1. A group of one has A = 0 (verl: A = R).
2. Without spread nothing is divided: eps never makes a large number out of a difference that is left.
3. Moments are float64. `std: sample` divides by n - 1, as verl, TRL and SkyRL do; the paper does not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from core_rl.numerics.groups import normalise
from core_rl.numerics.segments import broadcast

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_grpo.config import GroupNormConfig


class GroupNorm:
    """An advantage."""

    def __init__(self, options: GroupNormConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        options = self.options
        advantages = normalise(
            batch["rewards"],
            batch["group"],
            mean_level=options.mean_level,
            std_level=options.std_level,
            std=options.std,
            leave_one_out=options.leave_one_out,
            eps=options.eps,
        )
        if options.clip_low is not None or options.clip_high is not None:
            advantages = advantages.clamp(options.clip_low, options.clip_high)
        per_token = broadcast(advantages, batch.cu_seqlens, batch.num_tokens)
        return {"advantages": per_token.where(batch.loss_mask, 0.0)}
