"""Decoupled PPO: the clip around a proximal policy, the weight for the policy that sampled (AReaL, 2505.24298, eq. 5).

With r_t = pi(t) / pi_prox(t) and w_t = pi_prox(t) / mu(t), mu the rollout engine's log-probabilities,

    l_t = -sg(w_t) min(r_t A_t, clip(r_t, 1 - clip_low, 1 + clip_high) A_t)

    dual_clip = c           where A_t < 0:  l_t <- min(l_t, -sg(w_t) c A_t)

pi_prox is what `algorithm.proximal` says: recomputed, log-linear (A-3PO, 2512.06547), or the training forward itself. w counts whether or
not a rejection is configured. The gradient is that of w_t r_t = pi/mu wherever no clip acts.

Where it differs from the paper, and others from it:
1. Equation 5 has no bound on w. With `cap` a token of larger weight counts 0 and the denominators stay (zero), as in the authors' AReaL
   (behave_imp_weight_cap) and in Cosmos-RL; or its weight becomes the cap (clip).
2. RLinf takes such a token out of the denominators too: the rejection `ratio_band` does that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_decoupled.config import DecoupledPpoConfig


class DecoupledPpo:
    """A loss."""

    def __init__(self, options: DecoupledPpoConfig) -> None:
        self.low, self.high = 1 - options.clip_low, 1 + options.clip_high
        self.cap = math.inf if options.cap is None else options.cap
        self.beyond = options.beyond
        self.dual = math.inf if options.dual_clip is None else options.dual_clip

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        advantages, proximal = batch["advantages"], batch["old_logprobs"]
        ratio = ratios(logprobs, proximal, batch)
        behaviour = ratios(proximal, batch["rollout_logprobs"], batch).detach()
        capped = behaviour > self.cap
        weight = behaviour.clamp(max=self.cap) if self.beyond == "clip" else behaviour.masked_fill(capped, 0.0)
        values = -torch.minimum(ratio * advantages, ratio.clamp(self.low, self.high) * advantages)
        negative = advantages < 0
        if self.dual < math.inf:
            values = torch.where(negative, torch.minimum(values, -self.dual * advantages), values)
        low = negative & (ratio < self.low)
        high = (advantages > 0) & (ratio > self.high)
        terms = {
            "ratio/clip_low_frac": low.float(),
            "ratio/clip_high_frac": high.float(),
            "ratio/clip_frac": (low | high).float(),
            "behaviour/weight": behaviour,
            "behaviour/capped_frac": capped.float(),
        }
        if self.dual < math.inf:
            terms["ratio/dual_clip_frac"] = (negative & (ratio > self.dual)).float()
        return LossOutput(values=weight * values, metrics=sums(terms, batch.loss_mask))
