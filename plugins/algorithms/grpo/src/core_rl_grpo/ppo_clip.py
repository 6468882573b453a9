"""The clipped surrogate of PPO (1707.06347), with dual clip (1912.09729) and two-sided clipping (2505.07291).

N tokens. With r_t = pi(t) / pi_old(t) and advantage A_t, the loss of a token is

    l_t = -min(r_t A_t, clip(r_t, 1 - clip_low, 1 + clip_high) A_t)

    dual_clip = c           where A_t < 0:  l_t <- min(l_t, -c A_t)
    two_sided_delta = d     r_t A_t above becomes min(r_t, d) A_t; for A_t < 0 the same as dual_clip = d

Metrics: `ratio/clip_low_frac` and `ratio/clip_high_frac`, the shares of tokens whose gradient the clip takes away, `ratio/clip_frac` their sum, and
`ratio/dual_clip_frac` those that a bound for negative advantages takes away.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import ratios
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_grpo.config import PpoClipConfig


class PpoClip:
    """A loss."""

    def __init__(self, options: PpoClipConfig) -> None:
        self.low = 1 - options.clip_low
        self.high = 1 + options.clip_high
        self.delta = options.two_sided_delta or math.inf
        self.dual = options.dual_clip or math.inf

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        advantages = batch["advantages"]
        ratio = ratios(logprobs, batch["old_logprobs"], batch)
        surrogate = torch.minimum(ratio.clamp(max=self.delta) * advantages, ratio.clamp(self.low, self.high) * advantages)
        values = -surrogate
        negative = advantages < 0
        if self.dual < math.inf:
            values = torch.where(negative, torch.minimum(values, -self.dual * advantages), values)
        return LossOutput(values=values, metrics=self._metrics(ratio.detach(), advantages, negative, batch.loss_mask))

    def _metrics(
        self, ratio: torch.Tensor, advantages: torch.Tensor, negative: torch.Tensor, mask: torch.Tensor
    ) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        low = negative & (ratio < self.low)
        high = (advantages > 0) & (ratio > self.high)
        shares = {"clip_low_frac": low, "clip_high_frac": high, "clip_frac": low | high}
        bound = min(self.dual, self.delta)
        if bound < math.inf:
            shares["dual_clip_frac"] = negative & (ratio > bound)
        count = mask.sum()
        return {f"ratio/{name}": ((share & mask).sum(), count) for name, share in shares.items()}
