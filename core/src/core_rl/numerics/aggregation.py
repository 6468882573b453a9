"""How per-token losses become one number: the weight of every token, from global denominators.

N tokens, S sequences, L_i masked-in tokens of sequence i, B sequences with L_i > 0, P groups (prompts) with a masked-in token.
loss = sum_t w_t l_t with, inside the mask,

    token-mean                w_t = 1 / sum_i L_i                  DAPO, 2503.14476
    token-sum                 w_t = 1
    seq-mean-token-mean       w_t = 1 / (B · L_i)                  GRPO, 2402.03300
    seq-mean-token-sum        w_t = 1 / B
    seq-mean-token-sum-norm   w_t = 1 / (B · scale_length)         Dr. GRPO, 2503.20783
    prompt-mean               w_t = 1 / (P · sum_{j in i's group} L_j)

and w_t = 0 outside. The weights are made once, over the whole batch of all ranks, before it is split: then the gradient is the
same for every split into micro-batches, every number of ranks and every order of packing. An empty mask has all weights zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import torch

from core_rl.errors import UserError
from core_rl.numerics.groups import Groups
from core_rl.numerics.names import Aggregation
from core_rl.numerics.segments import broadcast, segment_count

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch


class Aggregator:
    """The aggregation of this name: an `Aggregation` for a train engine."""

    def __init__(self, name: Aggregation, scale_length: float | None = None) -> None:
        if name not in get_args(Aggregation):
            message = f"aggregation: expected one of {', '.join(get_args(Aggregation))}; found {name!r}"
            raise UserError(message)
        if name == "seq-mean-token-sum-norm" and not (scale_length or 0) > 0:
            message = f"aggregation seq-mean-token-sum-norm needs a scale length above 0, found {scale_length}"
            raise UserError(message)
        self.name = name
        self.scale_length = scale_length

    def weights(self, batch: PackedBatch) -> torch.Tensor:
        """[N] float32, zero outside the loss mask. The counts are exact; the division is float64."""
        lengths = segment_count(batch.loss_mask, batch.cu_seqlens)
        denominators = self._denominators(batch, lengths).clamp(min=1e-12)
        per_sequence = (lengths > 0) / denominators
        weights = broadcast(per_sequence.float(), batch.cu_seqlens, batch.num_tokens)
        return weights.where(batch.loss_mask, 0.0)

    def _denominators(self, batch: PackedBatch, lengths: torch.Tensor) -> torch.Tensor:
        """[S] float64: what the sum over a sequence's tokens is divided by."""
        own = lengths.double()
        sequences = (own > 0).sum()
        if self.name == "token-mean":
            return own.sum().expand_as(own)
        if self.name == "token-sum":
            return torch.ones_like(own)
        if self.name == "seq-mean-token-mean":
            return own * sequences
        if self.name == "seq-mean-token-sum":
            return sequences.expand_as(own).double()
        if self.name == "seq-mean-token-sum-norm":
            return sequences.expand_as(own) * float(self.scale_length or 1.0)
        groups = Groups.of(batch["group"])
        tokens_of_group = groups.sum(own)
        return groups.spread(tokens_of_group) * (tokens_of_group > 0).sum()


class LocalMean:
    """token-mean within parts of `sequences` sequences in the batch's order, then the mean over parts: w_t = 1 / (P · sum of L in the part).

    What systems do that average over each micro-batch (TRL's bnpo, verl's and SkyRL's older token mean), with the micro-batch as a part of
    the definition: the result does not depend on how the engine itself splits the batch. Parts with an empty mask do not count.
    """

    def __init__(self, sequences: int) -> None:
        self.sequences = sequences

    def weights(self, batch: PackedBatch) -> torch.Tensor:
        lengths = segment_count(batch.loss_mask, batch.cu_seqlens).double()
        part = torch.arange(lengths.numel(), device=lengths.device) // self.sequences
        parts = -(-lengths.numel() // self.sequences)
        tokens = torch.zeros(parts, dtype=torch.float64, device=lengths.device).index_add_(0, part, lengths)
        per_sequence = 1.0 / (tokens.clamp(min=1)[part] * (tokens > 0).sum().clamp(min=1))
        return broadcast(per_sequence.float(), batch.cu_seqlens, batch.num_tokens).where(batch.loss_mask, 0.0)
