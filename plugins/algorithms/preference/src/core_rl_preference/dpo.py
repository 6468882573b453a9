"""DPO and its variants: the policy's log-ratio to a reference is the reward of a completion (2305.18290).

N tokens, P pairs. With log-probabilities summed over a completion's tokens (`length: mean`: averaged),

    a = log pi(chosen) - log pi_ref(chosen),   b = log pi(rejected) - log pi_ref(rejected)

the loss of a pair is that of its `loss_type` (`core_rl_preference.kinds`), and stands at every token of both completions: with prompt-mean, the
mean over pairs. `aot` and `aot_unpaired` compare quantiles over the whole batch (`core_rl_preference.aot`).

Where others, or papers, differ:

1. IPO (2310.12036) writes probabilities of whole completions, and so does `ipo` here, as OpenRLHF; TRL averages over tokens, on the authors' word
   that their results are of that form: `length: mean`.
2. BCO (2404.04656) shifts rewards by a running mean over the run. `bco_shift` takes the mean over the batch of the step: no state to keep, and
   the same for every split. TRL's bco_pair has no shift.
3. LD-DPO (2409.06411) weighs the policy's tokens beyond the shorter length; TRL from 0.29 on weighs the reference's as well: `ld_reference`.
4. AOT sorts the whole batch of the step over all ranks; TRL sorts each micro-batch of each rank, so that its loss changes with their size.
5. The alpha divergence has TRL's alpha: 0 is the forward KL, 1 the reverse KL; the paper's (2309.16240) is 1 less this one.
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
        self.shifted = options.loss_type == "bco_pair" and options.bco_shift

    def prepare(self, batch: PackedBatch, forward: Forward) -> PackedBatch:
        """What only the whole batch tells, from the log-ratios before the step: partners of `aot`, the mean of `bco_pair`."""
        quantiles = self.options.loss_type in aot.KINDS
        if not quantiles and not self.shifted:
            return batch
        policy, reference = self._sums(forward(batch, "current"), batch), self._reference(batch)
        if quantiles:
            pairs = Pairs.of(batch)
            return aot.with_partners(batch, Sides.of(policy, pairs), Sides.of(reference, pairs), self.options.loss_type)
        mean = (policy - reference).double().mean().float()
        return batch.with_sequences(bco_shift=mean.expand(batch.num_sequences).clone())

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        options, pairs = self.options, Pairs.of(batch)
        sums = self._sums(logprobs, batch)
        sides = Sides.of(through_divergence(sums - self._reference(batch), options), pairs)
        if options.loss_type in aot.KINDS:
            loss = aot.loss(Sides.of(sums, pairs), sides, batch, options)
        else:
            shift = batch["bco_shift"][pairs.chosen] if self.shifted else 0.0
            loss = KINDS[options.loss_type](sides.chosen - shift, sides.rejected - shift, options)
        return pair_output(loss, sides, options.beta, logprobs, batch)

    def _sums(self, logprobs: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """[S], of the policy."""
        if self.options.ld_alpha is not None:
            logprobs = without_tail(logprobs, batch, self.options.ld_alpha)
        return sequence_logprobs(logprobs, batch, self.options.length)

    def _reference(self, batch: PackedBatch) -> torch.Tensor:
        """[S]"""
        if self.options.ld_reference:
            return self._sums(batch["ref_logprobs"], batch)
        return reference_logprobs(batch, self.options.length)
