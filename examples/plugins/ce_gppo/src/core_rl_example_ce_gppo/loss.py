"""CE-GPPO: a clip that preserves gradients, to steer the policy's entropy (2509.20712).

With r_t = pi(t) / pi_old(t), and sg for "without gradient",

    l_t = -beta_low  (1 - clip_low)  (r_t / sg(r_t)) A_t    where A_t < 0 and r_t < 1 - clip_low
          -beta_high (1 + clip_high) (r_t / sg(r_t)) A_t    where A_t > 0 and r_t > 1 + clip_high
          -r_t A_t                                          else

r / sg(r) is 1 with the gradient of log pi. PPO has no gradient in the first two cases: it forgets the unlikely tokens that keep
exploration up (A > 0) and those that hold it back (A < 0). beta_low = beta_high = 1 is GPPO (2508.07629), 0 has the gradient of PPO.

Where it differs from the authors' code: there is no bound for negative advantages at large ratios (their dual clip, c = 3).
N tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import ratios
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_example_ce_gppo.config import CeGppoConfig


class CeGppo:
    """A loss."""

    def __init__(self, options: CeGppoConfig) -> None:
        self.low = 1 - options.clip_low
        self.high = 1 + options.clip_high
        self.beta_low = options.beta_low
        self.beta_high = options.beta_high

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        """[N] -> values [N]."""
        advantages, mask = batch["advantages"], batch.loss_mask
        ratio = ratios(logprobs, batch["old_logprobs"], batch)  # [N], 1 outside the mask
        below = (advantages < 0) & (ratio < self.low) & mask
        above = (advantages > 0) & (ratio > self.high) & mask
        kept = (logprobs - logprobs.detach()).exp()  # r / sg(r), also where the ratio itself is bounded
        factor = torch.where(
            below, self.beta_low * self.low * kept, torch.where(above, self.beta_high * self.high * kept, ratio)
        )
        count = mask.sum()
        metrics = {"ratio/kept_low_frac": (below.sum(), count), "ratio/kept_high_frac": (above.sum(), count)}
        return LossOutput(values=-factor * advantages, metrics=metrics)
