"""Imitation of the samples that were right (VAPO, 2504.05118).

N tokens, S sequences. Over the tokens of sequences with raw reward R_i > threshold, and no others,

    l_t = -log pi(t)

As an extra loss it is averaged over just those tokens; VAPO adds it with `weight` 0.1 and the aggregation token-mean. A batch in which no
sample is right, and a sample whose reward failed (NaN), add nothing. `raw_rewards` are those before `reward_norm` and the KL penalty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.segments import broadcast
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_ppo.config import PositiveNllConfig


class PositiveNll:
    """A loss; beside another it speaks of its own tokens alone, by itself it is 0 on all others."""

    def __init__(self, options: PositiveNllConfig) -> None:
        self.threshold = options.threshold

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        positive, mask = self.mask(batch), batch.loss_mask
        return LossOutput(
            values=(-logprobs).where(positive, 0.0),
            metrics={"positive_nll/token_frac": ((positive & mask).sum(), mask.sum())},
        )

    def mask(self, batch: PackedBatch) -> torch.Tensor:
        """[N] bool."""
        return broadcast(batch["raw_rewards"] > self.threshold, batch.cu_seqlens, batch.num_tokens)
