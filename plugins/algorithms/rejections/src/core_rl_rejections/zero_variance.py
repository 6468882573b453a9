"""Groups whose samples all have the same reward teach nothing, and cost a forward and a backward pass (DAPO, 2503.14476, §3.2).

S sequences, N tokens. A group is kept iff max R - min R > `tolerance` over its rewards that did not fail; tokens of the
others leave the numerator and the denominators of the loss. `algorithm.refill` samples others in their place, as DAPO does.
R is the whole reward, one of its parts (`metric: math`, verl's filter_groups.metric), or the sum of those that are not in `without`: the
paper compares accuracies, and a penalty of length would keep groups that differ in nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.errors import UserError
from core_rl.numerics.segments import broadcast
from core_rl.roles.scoring import Verdict

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_rejections.config import ZeroVarianceConfig


class ZeroVariance:
    """A rejection."""

    def __init__(self, options: ZeroVarianceConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Verdict:
        rewards = self._values(batch).double()
        _, index = torch.unique(batch["group"], return_inverse=True)
        failed = rewards.isnan()
        count = int(index.max()) + 1 if index.numel() else 0
        lowest = rewards.new_full((count,), torch.inf).scatter_reduce(0, index, rewards.where(~failed, torch.inf), "amin")
        highest = rewards.new_full((count,), -torch.inf).scatter_reduce(0, index, rewards.where(~failed, -torch.inf), "amax")
        kept = (highest - lowest) > self.options.tolerance
        keep = broadcast(kept[index].float(), batch.cu_seqlens, batch.num_tokens) > 0
        return Verdict(keep=keep, metrics={"batch/zero_variance_frac": float(1 - kept.double().mean()) if count else 0.0})

    def _values(self, batch: PackedBatch) -> torch.Tensor:
        metric = self.options.metric
        if self.options.without:
            return self._others(batch)
        if metric == "reward":
            return batch["rewards"]
        if f"rewards/{metric}" not in batch:
            known = sorted(name.removeprefix("rewards/") for name in batch.sequence_fields if name.startswith("rewards/"))
            message = (
                f"algorithm.rejections: zero_variance.metric: there is no reward {metric!r}; known: reward, {', '.join(known)}"
            )
            raise UserError(message)
        return batch[f"rewards/{metric}"]

    def _others(self, batch: PackedBatch) -> torch.Tensor:
        """[S] float64: the weighted sum of the parts that count, NaN where the whole reward failed."""
        names = [name.removeprefix("rewards/") for name in batch.sequence_fields if name.startswith("rewards/")]
        counted = [name for name in names if name not in self.options.without]
        total = torch.zeros_like(batch["rewards"], dtype=torch.float64)
        for name in counted:
            total = total + batch[f"reward_weights/{name}"].double() * batch[f"rewards/{name}"].double().nan_to_num(0.0)
        return total.where(batch["rewards"].isfinite(), torch.nan)
