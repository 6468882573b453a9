"""ORPO's odds-ratio term (2403.07691, eq. 7).

With p = exp(mean log-probability) of a completion and odds = p / (1 - p),

    l = -beta log sigmoid(log odds(chosen) - log odds(rejected))
    log odds = x - log(1 - e^x),  x = log p

The likelihood of the chosen completion, the paper's first term, is the extra loss `nll` on chosen. x is kept below -1e-6: a completion of
probability 1 has odds that are large, and finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import logsigmoid

from core_rl.numerics.pairs import Pairs
from core_rl_preference._log_ratios import Sides, pair_output, sequence_logprobs

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import LossOutput, Unit
    from core_rl_preference.config import OrpoConfig

_NEAREST = -1e-6


class Orpo:
    """A loss."""

    unit: Unit = "group"

    def __init__(self, options: OrpoConfig) -> None:
        self.beta = options.beta

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        sides = Sides.of(sequence_logprobs(logprobs, batch, "mean"), Pairs.of(batch))
        loss = -self.beta * logsigmoid(log_odds(sides.chosen) - log_odds(sides.rejected))
        return pair_output(loss, sides, self.beta, logprobs, batch)


def log_odds(x: torch.Tensor) -> torch.Tensor:
    """log(p / (1 - p)) of x = log p."""
    x = x.clamp(max=_NEAREST)
    return x - torch.log(-torch.expm1(x))
