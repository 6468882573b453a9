"""AIPO: policy gradient with a truncated ratio to the policy that sampled (LlamaRL, 2505.24034, eq. 3).

With w_t = pi(t) / mu(t), mu the rollout engine's log-probabilities,

    l_t = -sg(min(w_t, cap)) A_t log pi(t)
    l_t = -min(w_t, cap) A_t                  `differentiable`: the gradient goes through the ratio, and beyond the cap there is none

There is no old policy, so `proximal` has no say, and no correction for the rollout is due beside it.

Where others differ: Cosmos-RL's `aipo_rho` is the second form with pi_old in the place of mu (`behaviour: old`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.ratios import ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_cispo.config import AipoConfig


class Aipo:
    """A loss."""

    def __init__(self, options: AipoConfig) -> None:
        self.cap = options.cap
        self.behaviour = "rollout_logprobs" if options.behaviour == "rollout" else "old_logprobs"
        self.differentiable = options.differentiable

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        ratio = ratios(logprobs, batch[self.behaviour], batch)
        weight = ratio.clamp(max=self.cap)
        values = -weight * batch["advantages"] if self.differentiable else -weight.detach() * batch["advantages"] * logprobs
        terms = {"ratio/clip_frac": (ratio > self.cap).float(), "aipo/ratio": ratio}
        return LossOutput(values=values, metrics=sums(terms, batch.loss_mask))
