"""Policy gradient with a squared log-ratio in place of a clip (DRO, 2405.19107; Kimi k1.5, 2501.12599, eq. 3).

    l_t = -A_t log pi(t) + (beta / 2) (log pi(t) - log pi_old(t))^2

Its gradient is -(A_t - beta x_t) grad log pi(t), x_t the log-ratio: that of Kimi-K2 as well, which takes tau · sg(x_t) from the advantage.
DRO's paper learns a value function beside it; the advantage here is whatever is selected. beta has no default that fits all rewards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.ratios import log_ratios
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

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        square = log_ratios(logprobs, batch["old_logprobs"], batch).square()
        values = -batch["advantages"] * logprobs + self.beta / 2 * square
        return LossOutput(values=values, metrics=sums({"dro/squared_log_ratio": square}, batch.loss_mask))
