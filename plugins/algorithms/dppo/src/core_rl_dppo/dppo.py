"""DPPO: trust regions in a divergence of the sampled token, in place of the clip of its ratio (2602.04879, §4).

With p_t = pi(t), q_t the behaviour policy's probability and r_t = p_t / q_t,

    total variation   out of the region:  A_t > 0 and p_t - q_t > delta_high,  or  A_t < 0 and p_t - q_t < -delta_low
    binary KL         d_t = q log(q/p) + (1 - q) log((1 - q)/(1 - p));
                      out of the region:  A_t > 0, p_t > q_t, d_t > delta_high,  or  A_t < 0, p_t < q_t, d_t > delta_low
    l_t = -M_t r_t A_t,   M_t = 0 out of the region, else 1

A rare token may change its ratio a lot while its probability hardly moves, and a likely one the other way round: the region asks for what
the policy does. A = 0 never leaves it.

Where others differ:
1. verl has pi_old for the behaviour policy (`behaviour: old`) and -M sg(min(r, c)) A log pi for the loss (`weight_cap: 3`, its effective default;
   a comment there recommends 20).
2. SkyRL and prime-rl have the rollout engine's probabilities, as here.
3. The authors run total variation with 0.15 and KL with 0.05, the defaults here. SkyRL and prime-rl have 0.2; verl its clip_ratio, 0.2 unless
   told. A token of probability 0.9 may fall to 0.62 within a KL of 0.2, to 0.78 within 0.05.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_dppo.config import DppoKlConfig, DppoTvConfig


class _Dppo:
    """What both regions share."""

    def __init__(self, options: DppoTvConfig | DppoKlConfig) -> None:
        self.options = options

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        options, advantages = self.options, batch["advantages"]
        behaviour = batch["rollout_logprobs" if options.behaviour == "rollout" else "old_logprobs"]
        ratio = ratios(logprobs, behaviour, batch)
        out = self.out(logprobs.detach(), behaviour, advantages)
        gain = ratio if options.weight_cap is None else ratio.detach().clamp(max=options.weight_cap) * logprobs
        values = -(gain * advantages).masked_fill(out, 0.0)
        return LossOutput(values=values, metrics=sums({"ratio/clip_frac": out.float()}, batch.loss_mask))

    def out(self, logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        """[N] bool: the tokens that are out of the region and on their way further."""
        raise NotImplementedError


class DppoTv(_Dppo):
    """A loss."""

    def out(self, logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        moved = logprobs.exp() - behaviour.exp()
        return ((advantages > 0) & (moved > self.options.delta_high)) | ((advantages < 0) & (moved < -self.options.delta_low))


class DppoKl(_Dppo):
    """A loss."""

    def out(self, logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        divergence = binary_kl(behaviour, logprobs)
        rose, fell = logprobs > behaviour, logprobs < behaviour
        high, low = divergence > self.options.delta_high, divergence > self.options.delta_low
        return ((advantages > 0) & rose & high) | ((advantages < 0) & fell & low)


def binary_kl(log_q: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
    """[N]: KL(Bernoulli(q) || Bernoulli(p)); 0 for equal ones, finite or +inf, never NaN, also for probability 1."""
    log_q, log_p = log_q.clamp(max=0.0), log_p.clamp(max=0.0)
    rest_q, rest_p = -torch.expm1(log_q), -torch.expm1(log_p)  # 1 - q, 1 - p
    other = torch.where(rest_q > 0, rest_q * (rest_q.log() - rest_p.log()), 0.0)
    return (log_q.exp() * (log_q - log_p) + other).masked_fill(log_q == log_p, 0.0)
