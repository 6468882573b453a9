"""GMPO: the geometric mean of a sequence's token ratios, clipped token by token (2507.20673, eq. 4).

With x_t = log pi(t) - log pi_old(t), mask m and L_i = sum_t m_t of sequence i,

    y_t  = sgn(A_t) min(sgn(A_t) x_t, sgn(A_t) clip(x_t, -clip_low, clip_high))
    l_it = -A_t exp(sum_t m_t y_t / L_i)

The loss of a sequence stands at each of its tokens; its mean over sequences is seq-mean-token-mean. Tokens with A = 0 count x_t itself.

Where others differ:
1. verl takes its clip_ratio, 0.2 unless told, for the bound of the log-ratio; 0.4 is the paper's, and TRL's.
2. The mean is bounded to ±20 before the exponential.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import bounded_exp
from core_rl.numerics.segments import broadcast, segment_mean
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_gmpo.config import GmpoConfig


class Gmpo:
    """A loss."""

    def __init__(self, options: GmpoConfig) -> None:
        self.low = -options.clip_low
        self.high = options.clip_high

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        advantages, mask = batch["advantages"], batch.loss_mask
        x = (logprobs - batch["old_logprobs"]).where(mask, 0.0)
        clipped = ((advantages > 0) & (x > self.high)) | ((advantages < 0) & (x < self.low))
        bound = torch.full_like(x, self.low).masked_fill(advantages > 0, self.high)
        mean = segment_mean(torch.where(clipped, bound, x), batch.cu_seqlens, mask)
        values = -advantages * broadcast(bounded_exp(mean), batch.cu_seqlens, batch.num_tokens)
        return LossOutput(values=values, metrics=sums({"ratio/clip_frac": clipped.float()}, mask))
