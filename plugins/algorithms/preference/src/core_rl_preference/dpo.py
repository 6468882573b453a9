"""DPO and its variants: the policy's log-ratio to a reference is the reward of a completion (2305.18290).

N tokens, P pairs. With log-probabilities summed over a completion's tokens (`length: mean`: averaged),

    a = log pi(chosen) - log pi_ref(chosen),   b = log pi(rejected) - log pi_ref(rejected)

the loss of a pair is that of its `loss_type` (`core_rl_preference.kinds`), and stands at every token of both completions: with prompt-mean, the
mean over pairs. `aot` and `aot_unpaired` compare quantiles over the whole batch (`core_rl_preference.aot`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.pairs import Pairs
from core_rl_preference import aot
from core_rl_preference._log_ratios import Sides, pair_output, reference_logprobs, sequence_logprobs, without_tail
from core_rl_preference.kinds import KINDS, through_divergence

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import Forward
    from core_rl.roles.train import LossOutput, Unit
    from core_rl_preference.config import DpoConfig


class Dpo:
    """A loss."""

    unit: Unit = "group"

    def __init__(self, options: DpoConfig) -> None:
        self.options = options

    def prepare(self, batch: PackedBatch, forward: Forward) -> PackedBatch:
        """For `aot`: the partner of each pair, from the log-ratios before the step."""
        if self.options.loss_type not in aot.KINDS:
            return batch
        policy, reference = self._sums(forward(batch, "current"), batch), self._reference(batch)
        pairs = Pairs.of(batch)
        return aot.with_partners(batch, Sides.of(policy, pairs), Sides.of(reference, pairs), self.options.loss_type)

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        options, pairs = self.options, Pairs.of(batch)
        ratios = self._sums(logprobs, batch) - self._reference(batch)
        sides = Sides.of(through_divergence(ratios, options), pairs)
        if options.loss_type in aot.KINDS:
            policy = Sides.of(self._sums(logprobs, batch), pairs)
            loss = aot.loss(policy, sides, batch, options)
        else:
            loss = KINDS[options.loss_type](sides.chosen, sides.rejected, options)
        return pair_output(loss, sides, options.beta, batch)

    def _sums(self, logprobs: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """[S], of the policy."""
        if self.options.ld_alpha is not None:
            logprobs = without_tail(logprobs, batch, self.options.ld_alpha)
        return sequence_logprobs(logprobs, batch, self.options.length)

    def _reference(self, batch: PackedBatch) -> torch.Tensor:
        return reference_logprobs(batch, self.options.length)
