"""GSPO: PPO's clipped surrogate with the ratio of the whole sequence (2507.18071, eq. 5 to 7; GSPO-token eq. 13 and 14).

With x_t = log pi(t) - log pi_old(t), mask m and L_i = sum_t m_t of sequence i,

    s_i  = exp(sum_t m_t x_t / L_i)                          level sequence
    s_it = sg(s_i) · pi(t) / sg(pi(t))                       level token
    l_it = -min(s A_t, clip(s, 1 - clip_low, 1 + clip_high) A_t)

The value of both levels is the same; the gradient is too when all A_t of a sequence are equal. The loss of a sequence stands at each
of its tokens: seq-mean-token-mean is GSPO's mean over sequences, seq-mean-token-sum is LUSPO (2602.05261).

Where others differ:
1. verl, TRL and NeMo-RL leave the bounds at 0.2 unless told; these are the paper's (§5.1). LUSPO's are 2e-3 and 2.5e-3, and the algorithm's.
2. OpenRLHF takes the rollout engine's log-probabilities for pi_old when importance correction is on: `proximal: rollout` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_gspo.config import GspoConfig


class Gspo:
    """A loss."""

    def __init__(self, options: GspoConfig) -> None:
        self.low = 1 - options.clip_low
        self.high = 1 + options.clip_high
        self.level = options.level

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        advantages = batch["advantages"]
        ratio = ratios(logprobs, batch["old_logprobs"], batch, "geometric")
        if self.level == "token":
            ratio = ratio.detach() * (logprobs - logprobs.detach()).exp()
        held = ratio.detach()
        low, high = (advantages < 0) & (held < self.low), (advantages > 0) & (held > self.high)
        values = -advantages * torch.where(
            low | high, held.clamp(self.low, self.high), ratio
        )  # the smaller of the two products
        shares = {"clip_low_frac": low, "clip_high_frac": high, "clip_frac": low | high}
        terms = {f"ratio/{name}": share.float() for name, share in shares.items()}
        return LossOutput(values=values, metrics=sums({**terms, "ratio/sequence_mean": held}, batch.loss_mask))
