"""SimPO: the average log-probability of a completion is its reward, with a target margin (2405.14734, eq. 6).

    l = -log sigmoid(beta (a - b) - gamma),   a, b the mean log-probabilities of the chosen and the rejected completion

The authors' code states gamma as `gamma_beta_ratio` times beta. TRL's simpo_gamma is gamma itself: it divides by beta and multiplies again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.pairs import Pairs
from core_rl_preference._log_ratios import Sides, pair_output, sequence_logprobs
from core_rl_preference.kinds import smoothed

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import LossOutput, Unit
    from core_rl_preference.config import SimpoConfig


class Simpo:
    """A loss."""

    unit: Unit = "group"

    def __init__(self, options: SimpoConfig) -> None:
        self.options = options

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        options = self.options
        sides = Sides.of(sequence_logprobs(logprobs, batch, "mean"), Pairs.of(batch))
        loss = smoothed(options.beta * (sides.chosen - sides.rejected) - options.margin, options.label_smoothing)
        return pair_output(loss, sides, options.beta, logprobs, batch)
