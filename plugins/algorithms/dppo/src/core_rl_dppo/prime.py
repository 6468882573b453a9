"""prime-rl's default loss: total-variation mask, ratio with its gradient, and a squared log-ratio (with 2602.02276 for the second term).

With p_t = pi(t), mu_t the rollout engine's probability and w_t = p_t / mu_t,

    directional   M_t = 0 where A_t > 0 and p_t - mu_t > delta_high, or A_t < 0 and p_t - mu_t < -delta_low
    symmetric     M_t = 0 where p_t - mu_t > delta_high or p_t - mu_t < -delta_low      (its type `ipo`, with 0.1)
    l_t = -advantage_tau M_t A_t w_t + kl_tau (log w_t)^2

The second term counts tokens outside of the mask too. Its documentation calls the loss AIPO with a capped ratio; there is no cap in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.ratios import log_ratios, ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_dppo.config import PrimeConfig


class Prime:
    """A loss."""

    def __init__(self, options: PrimeConfig) -> None:
        self.options = options

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        options, advantages, sampled = self.options, batch["advantages"], batch["rollout_logprobs"]
        moved = logprobs.detach().exp() - sampled.exp()
        high, low = moved > options.delta_high, moved < -options.delta_low
        out = high | low if options.mask == "symmetric" else ((advantages > 0) & high) | ((advantages < 0) & low)
        gain = (advantages * ratios(logprobs, sampled, batch)).masked_fill(out, 0.0)
        square = log_ratios(logprobs, sampled, batch).square()
        values = -options.advantage_tau * gain + options.kl_tau * square
        terms = {"ratio/clip_frac": out.float(), "prime/squared_log_ratio": square}
        return LossOutput(values=values, metrics=sums(terms, batch.loss_mask))
