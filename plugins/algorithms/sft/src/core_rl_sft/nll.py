"""The negative log-likelihood of a token, which supervised fine-tuning minimises.

N tokens. Inside the mask,

    l_t = -log pi(t)

and outside it nothing. Of pairs, `on: chosen` narrows the mask to the preferred completion, so that as an extra loss of a preference
algorithm this is the regulariser of RPO (2404.19733) and of CPO (2401.08417). With the aggregation token-mean the loss is that of
transformers' `labels`, with a denominator over the whole batch.

Metrics: `nll/mean`, and `nll/prob`, the mean probability of a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.segments import broadcast
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_sft.config import NllConfig


class Nll:
    """A loss."""

    def __init__(self, options: NllConfig) -> None:
        self.on = options.on

    def mask(self, batch: PackedBatch) -> torch.Tensor:
        """[N] bool: the tokens that are imitated."""
        if self.on == "all" or "chosen" not in batch:
            return batch.loss_mask
        return batch.loss_mask & broadcast(batch["chosen"], batch.cu_seqlens, batch.num_tokens)

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        terms = {"nll/mean": -logprobs, "nll/prob": logprobs.detach().exp()}
        return LossOutput(values=-logprobs, metrics=sums(terms, self.mask(batch)))
