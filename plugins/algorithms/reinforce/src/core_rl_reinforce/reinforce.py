"""REINFORCE (Williams 1992): the score function times the advantage, without a ratio and without a clip.

N tokens. pi the policy, mu the rollout engine, sg without gradient:

    l_t = -A_t log pi_t                                    importance: none
    l_t = -sg(min(pi_t / mu_t, cap)) A_t log pi_t          importance: rollout

The value says little; what counts is the gradient by log pi_t, -A_t or -w_t A_t. `rollout` with a cap is the loss `aipo` (2505.24034). Metrics
with `rollout`: `reinforce/weight_mean`, and `reinforce/capped_frac`, the share of tokens whose weight the cap makes smaller.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from core_rl.numerics.ratios import ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_reinforce.config import ReinforceLossConfig


class Reinforce:
    """A loss."""

    def __init__(self, options: ReinforceLossConfig) -> None:
        self.weighs = options.importance == "rollout"
        self.cap = math.inf if options.cap is None else options.cap

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        values = -batch["advantages"] * logprobs
        if not self.weighs:
            return LossOutput(values=values, metrics={})
        weights = ratios(logprobs.detach(), batch["rollout_logprobs"], batch)
        capped = weights.clamp(max=self.cap)
        terms = {"reinforce/weight_mean": capped, "reinforce/capped_frac": (weights > self.cap).float()}
        return LossOutput(values=capped * values, metrics=sums(terms, batch.loss_mask))
