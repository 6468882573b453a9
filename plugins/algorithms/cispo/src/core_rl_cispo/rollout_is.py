"""Policy gradient with the ratio to the policy that sampled, for tokens whose ratio lies in a band (SkyRL's `rollout_is`).

With w_t = pi(t) / mu(t),

    l_t = -sg(w_t · [1 - clip_low < w_t < 1 + clip_high]) A_t log pi(t)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.ratios import ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_cispo.config import RolloutIsConfig


class RolloutIs:
    """A loss."""

    def __init__(self, options: RolloutIsConfig) -> None:
        self.low, self.high = 1 - options.clip_low, 1 + options.clip_high

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        ratio = ratios(logprobs.detach(), batch["rollout_logprobs"], batch)
        inside = (ratio > self.low) & (ratio < self.high)
        values = -ratio.where(inside, 0.0) * batch["advantages"] * logprobs
        terms = {"ratio/clip_frac": (~inside).float(), "ratio/rollout_mean": ratio}
        return LossOutput(values=values, metrics=sums(terms, batch.loss_mask))
