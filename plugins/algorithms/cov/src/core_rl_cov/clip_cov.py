"""Clip-Cov: PPO-clip, in which a few tokens of high covariance lose their gradient (2505.22617, eq. 10).

With r_t = pi(t) / pi_old(t), over the M tokens in the mask of an optimizer step

    cov_t = (A_t - mean A)(log pi_old(t) - mean log pi_old)
    I     = max(1, floor(ratio · M)) tokens, drawn from those with cov_low < cov_t < cov_high
    l_t   = 0 for t in I, else -min(r_t A_t, clip(r_t, 1 - clip_low, 1 + clip_high) A_t)

Where this differs from the paper:
1. The covariance is that of the old policy, so that it is known for the whole step before a batch is split: the choice cannot depend on
   micro-batches. At the first optimizer step of a batch the two are equal. verl chooses within each micro-batch, from the current policy's,
   and leaves out tokens that the clip has taken already; these are candidates here.
2. The draw is a hash of the token's numbers: the same tokens for the same batch, in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput
from core_rl_cov._covariance import covariance, drawn, share_of

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_cov.config import ClipCovConfig


class ClipCov:
    """A loss."""

    def __init__(self, options: ClipCovConfig) -> None:
        self.options = options

    def before_step(self, batch: PackedBatch) -> PackedBatch:
        cov = covariance(batch)
        candidates = (cov > self.options.cov_low) & (cov < self.options.cov_high)
        return batch.with_tokens(clip_cov=drawn(batch, candidates, share_of(batch, self.options.ratio)))

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        options, advantages = self.options, batch["advantages"]
        ratio = ratios(logprobs, batch["old_logprobs"], batch)
        held = ratio.detach()
        clipped = held.clamp(1 - options.clip_low, 1 + options.clip_high)
        beyond = held * advantages > clipped * advantages
        smaller = torch.where(beyond, clipped, ratio) * advantages
        values = -smaller.masked_fill(batch["clip_cov"], 0.0)
        terms = {"ratio/clip_frac": beyond.float(), "cov/clip_frac": batch["clip_cov"].float()}
        return LossOutput(values=values, metrics=sums(terms, batch.loss_mask))
