"""Policy gradient with a squared log-ratio in place of a clip (DRO, 2405.19107; Kimi k1.5, 2501.12599, eq. 3).

With x_t = log pi(t) - log pi_old(t), mask m, and L_i = sum_t m_t of sequence i,

    l_it = -A_t log pi(t) + beta / (2 L_i) (sum_j m_j x_j)^2        level sequence
    l_it = -A_t log pi(t) + beta / 2 x_t^2                          level token

The sum over a sequence's tokens is the papers' loss of the sequence: aggregation seq-mean-token-sum. Its gradient is
-(A_t - beta sum_j x_j) grad log pi(t), that of Kimi-K2's squared error and of the form that takes tau · sg(x) from the advantage as well.
At pi = pi_old the square has no gradient. beta has no default, since no number fits all rewards.

Where others differ:
1. verl (`dro`) and ROLL (`kimi15`) have the token's log-ratio: `level: token`. The hold is weaker there, by the length of the sequence where x has one sign.
   ART takes tau · sg(x_t) from the advantage of CISPO, whose weight it keeps: `tau` of the loss `cispo`.
2. DRO's paper learns a value function beside it; the advantage here is whatever is selected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.ratios import log_ratios
from core_rl.numerics.segments import broadcast, segment_count
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_dro.config import DroConfig


class Dro:
    """A loss."""

    def __init__(self, options: DroConfig) -> None:
        self.beta = options.beta
        self.level = options.level

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        square = log_ratios(logprobs, batch["old_logprobs"], batch, self.level).square()
        share = self.beta / 2 * square
        if self.level == "sequence":
            lengths = segment_count(batch.loss_mask, batch.cu_seqlens).clamp(min=1)
            share = share / broadcast(lengths, batch.cu_seqlens, batch.num_tokens)
        values = -batch["advantages"] * logprobs + share
        return LossOutput(values=values, metrics=sums({"dro/squared_log_ratio": square}, batch.loss_mask))
