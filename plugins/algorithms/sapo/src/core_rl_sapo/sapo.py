"""SAPO: soft adaptive policy optimisation (2511.20347, eq. 5 and 6).

With r_t = pi(t) / pi_old(t),

    l_t = -(4 / tau) sigmoid(tau (r_t - 1)) A_t,   tau = tau_positive where A_t > 0, else tau_negative

At r = 1 the gradient is that of PPO, since 4 sigmoid' = 1 there; it fades smoothly on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import ratios
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_sapo.config import SapoConfig


class Sapo:
    """A loss."""

    def __init__(self, options: SapoConfig) -> None:
        self.positive = options.tau_positive
        self.negative = options.tau_negative

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        advantages = batch["advantages"]
        tau = torch.full_like(advantages, self.negative).masked_fill(advantages > 0, self.positive)
        gate = torch.sigmoid(tau * (ratios(logprobs, batch["old_logprobs"], batch) - 1))
        mask = batch.loss_mask
        strength = (4 * gate * (1 - gate)).detach().where(mask, 0.0)  # 1 at the old policy, 0 where the gate is shut
        return LossOutput(values=-4 / tau * gate * advantages, metrics={"ratio/gate": (strength.sum(), mask.sum())})
