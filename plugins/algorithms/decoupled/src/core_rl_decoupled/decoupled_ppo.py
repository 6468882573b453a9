"""Decoupled PPO: the clip around a proximal policy, the weight for the policy that sampled (AReaL, 2505.24298, eq. 5).

With r_t = pi(t) / pi_prox(t) and w_t = pi_prox(t) / mu(t), mu the rollout engine's log-probabilities,

    l_t = -sg(w_t) min(r_t A_t, clip(r_t, 1 - clip_low, 1 + clip_high) A_t)

pi_prox is what `algorithm.proximal` says: recomputed, log-linear (A-3PO, 2512.06547), or the training forward itself. w counts whether or
not a rejection is configured. Above `cap` it becomes the cap (clip), or 0 with the denominators kept (zero).

Where others differ: RLinf takes a token beyond the cap out of the denominators too: the rejection `ratio_band` does that.
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

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        advantages, proximal = batch["advantages"], batch["old_logprobs"]
        ratio = ratios(logprobs, proximal, batch)
        behaviour = ratios(proximal, batch["rollout_logprobs"], batch).detach()
        capped = behaviour > self.cap
        weight = behaviour.clamp(max=self.cap) if self.beyond == "clip" else behaviour.masked_fill(capped, 0.0)
        values = -weight * torch.minimum(ratio * advantages, ratio.clamp(self.low, self.high) * advantages)
        low = (advantages < 0) & (ratio < self.low)
        high = (advantages > 0) & (ratio > self.high)
        terms = {
            "ratio/clip_low_frac": low.float(),
            "ratio/clip_high_frac": high.float(),
            "ratio/clip_frac": (low | high).float(),
            "behaviour/weight": behaviour,
            "behaviour/capped_frac": capped.float(),
        }
        return LossOutput(values=values, metrics=sums(terms, batch.loss_mask))
