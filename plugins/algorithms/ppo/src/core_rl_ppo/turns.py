"""Turns of a packed batch as steps: what the policy wrote without a break is one turn.

N tokens, S sequences, K turns with at least one token in `loss_mask`. A turn is a run of `generated`; a rejection that takes tokens out of the
middle of one does not make it two. Its reward is the sum over its tokens in the mask, its value that of the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs
import torch

from core_rl.numerics.segments import broadcast, segment_count, segment_sum

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch


@attrs.frozen(eq=False)
class Turns:
    """Which tokens make up which turn, turn by turn."""

    tokens: torch.Tensor
    """Indices of the tokens in the mask."""
    bounds: torch.Tensor
    """[K+1] int64: turn k is `tokens[bounds[k]:bounds[k+1]]`."""
    cu_seqlens: torch.Tensor
    """[S+1] int64: sequence i has the turns `cu_seqlens[i]` to `cu_seqlens[i+1]`."""
    num_tokens: int

    @classmethod
    def of(cls, batch: PackedBatch) -> Self:
        generated, mask = batch["generated"], batch.loss_mask
        before = generated.roll(1)
        before[batch.cu_seqlens[:-1].long()] = False
        number = (generated & ~before).cumsum(0)
        tokens = mask.nonzero().squeeze(-1)
        _, sizes = torch.unique_consecutive(number[tokens], return_counts=True)
        bounds = _bounds(sizes)
        opens = torch.zeros_like(mask)
        opens[tokens[bounds[:-1]]] = True
        return cls(tokens, bounds, _bounds(segment_count(opens, batch.cu_seqlens)), batch.num_tokens)

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """[N] -> [K]."""
        return segment_sum(values[self.tokens], self.bounds)

    def first(self, values: torch.Tensor) -> torch.Tensor:
        """[N] -> [K]."""
        return values[self.tokens[self.bounds[:-1]]]

    def spread(self, per_turn: torch.Tensor) -> torch.Tensor:
        """[K] -> [N]: every token in the mask gets its turn's value, every other 0."""
        full = per_turn.new_zeros(self.num_tokens)
        full[self.tokens] = broadcast(per_turn, self.bounds, self.tokens.numel())
        return full


def _bounds(sizes: torch.Tensor) -> torch.Tensor:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
