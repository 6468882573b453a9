"""GPG (2504.02546): the group mean as baseline, scaled up by the share of samples that teach anything.

S sequences. Every token of sequence i gets

    A_i = alpha (R_i - mean_G) / F_norm,   alpha = B / (B - M)

B counts the samples that are in the loss, M those of them in groups whose rewards are all equal, and whose gradient is 0. F_norm is 1, or
std_G + eps (`scale: std`).

Where this differs from other systems:
1. verl takes alpha = B / #{R_i != 0}, which counts rewards and not gradients: `alpha: nonzero_reward`. The two differ already for
   groups in which all samples are right.
2. Samples that a rejection has taken out are not in B: they have left the loss's denominator, and alpha would correct for them twice.
3. Without any sample that teaches, alpha is 1; every A is 0 then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.groups import Groups, group_mean, group_std
from core_rl.numerics.segments import segment_count
from core_rl_reinforce.per_sequence import on_tokens

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_reinforce.config import GpgConfig


class Gpg:
    """An advantage."""

    def __init__(self, options: GpgConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        rewards, group = batch["rewards"], batch["group"]
        std = group_std(rewards, group)
        advantages = rewards.double() - group_mean(rewards, group)
        if self.options.scale == "std":
            advantages = advantages / torch.where(std > 0, std + self.options.eps, 1.0)
        return on_tokens(self._alpha(batch, std) * advantages, batch)

    def _alpha(self, batch: PackedBatch, std: torch.Tensor) -> float:
        if self.options.alpha == "one":
            return 1.0
        rewards, groups = batch["rewards"], Groups.of(batch["group"])
        known = rewards.isfinite()
        several = groups.spread(groups.sum(known.double())) > 1  # the deviation of one alone counts as 1
        teaching = (std > 0) & several if self.options.alpha == "spread" else rewards != 0
        counted = known & (segment_count(batch.loss_mask, batch.cu_seqlens) > 0)
        return float(counted.sum() / (teaching & counted).sum()) if (teaching & counted).any() else 1.0
