"""TOPR: tapered off-policy REINFORCE (2503.14286, eq. 6).

With r the ratio of pi to pi_old, of the whole sequence in the paper (whose denominator is the policy that sampled: `proximal: rollout`),

    good samples:  l_t = -positive_weight A_t log pi(t)
    bad samples:   l_t = -negative_weight sg(min(r, cap)) A_t log pi(t)

A sample is good when its reward is above 0 (`sign: advantage`: when A_t > 0); a reward of 0, whose gradient is 0 in the paper, is bad here
when some baseline gives it an advantage. The paper's rewards are +1 and -1 and are the advantages;
a weight for bad samples is what keeps off-policy learning stable, since pushing a sample away has no end.

Where others differ: ROLL takes the ratio token by token (`level: token`), and the mean over tokens and sequences for the paper's sum over tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import ratios
from core_rl.numerics.segments import broadcast
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_cispo.config import ToprConfig


class Topr:
    """A loss."""

    def __init__(self, options: ToprConfig) -> None:
        self.options = options

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        options, advantages = self.options, batch["advantages"]
        tapered = ratios(logprobs.detach(), batch["old_logprobs"], batch, options.level).clamp(max=options.cap)
        good = advantages > 0 if options.sign == "advantage" else _spread(batch["raw_rewards"], batch) > 0
        weight = torch.where(good, options.positive_weight, options.negative_weight * tapered)
        values = -weight * advantages * logprobs
        terms = {"topr/weight": weight, "topr/good_frac": good.float()}
        return LossOutput(values=values, metrics=sums(terms, batch.loss_mask))


def _spread(rewards: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
    return broadcast(rewards, batch.cu_seqlens, batch.num_tokens)
