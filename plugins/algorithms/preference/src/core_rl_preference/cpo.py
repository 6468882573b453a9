"""CPO: DPO with a uniform reference, which drops out of every difference (2401.08417, eq. 3).

With a and b the summed log-probabilities of the chosen and the rejected completion, and D = beta (a - b), the loss of a pair is the `loss_type` of
`core_rl_preference.kinds` (sigmoid, hinge, ipo). The paper's likelihood term is the extra loss `nll` on chosen completions. This is TRL's
reference-free DPO as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.pairs import Pairs
from core_rl_preference._log_ratios import Sides, pair_output, sequence_logprobs
from core_rl_preference.config import DpoConfig
from core_rl_preference.kinds import KINDS

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import LossOutput, Unit
    from core_rl_preference.config import CpoConfig


class Cpo:
    """A loss."""

    unit: Unit = "group"

    def __init__(self, options: CpoConfig) -> None:
        self.options = DpoConfig(loss_type=options.loss_type, beta=options.beta, label_smoothing=options.label_smoothing)

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        sides = Sides.of(sequence_logprobs(logprobs, batch), Pairs.of(batch))
        loss = KINDS[self.options.loss_type](sides.chosen, sides.rejected, self.options)
        return pair_output(loss, sides, self.options.beta, logprobs, batch)
