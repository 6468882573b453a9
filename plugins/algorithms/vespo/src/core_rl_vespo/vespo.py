"""VESPO: variational sequence-level soft policy optimisation (2602.10693), as TRL has it.

With W_i the ratio of sequence i under the current and the behaviour policy, without gradient,

    log W_i = clip(sum_t m_t (log pi(t) - log mu(t)), log 1e-8, 20)
    phi     = e^lambda W^k e^(-lambda W)         (k, lambda) by the sign of A_t; phi(1) = 1
    l_t     = -phi(W_i) A_t log pi(t)

W is the product of pi/pi_old and of the rollout correction pi_old/mu, in which pi_old cancels. `behaviour: old` leaves the correction out.
phi is computed as exp(lambda + k log W - lambda W).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import log_ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_vespo.config import VespoConfig

_LOWEST, _HIGHEST = math.log(1e-8), 20.0


class Vespo:
    """A loss."""

    def __init__(self, options: VespoConfig) -> None:
        self.options = options

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        options, advantages = self.options, batch["advantages"]
        behaviour = batch["rollout_logprobs" if options.behaviour == "rollout" else "old_logprobs"]
        log_weight = log_ratios(logprobs.detach(), behaviour, batch, "sequence").clamp(_LOWEST, _HIGHEST)
        negative = advantages < 0
        k = torch.full_like(advantages, options.k_positive).masked_fill(negative, options.k_negative)
        decay = torch.full_like(advantages, options.lambda_positive).masked_fill(negative, options.lambda_negative)
        phi = (decay + k * log_weight - decay * log_weight.exp()).exp()
        values = -phi * advantages * logprobs
        return LossOutput(values=values, metrics=sums({"vespo/weight": phi, "vespo/log_ratio": log_weight}, batch.loss_mask))
