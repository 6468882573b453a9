"""Which two sequences are a pair, and how what is known of a pair reaches their tokens.

N tokens, S sequences, P pairs. A pair is a group of two sequences, one of them `chosen`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs
import torch

from core_rl.numerics.segments import broadcast

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch


@attrs.frozen(eq=False)
class Pairs:
    """`chosen` [P] and `rejected` [P] int64: the indices of their sequences, pair by pair."""

    chosen: torch.Tensor
    rejected: torch.Tensor

    @classmethod
    def of(cls, batch: PackedBatch) -> Self:
        """The pairs of a batch with `group` and `chosen` [S], in the order of their groups."""
        group, chosen = batch["group"], batch["chosen"]
        sides = [side[torch.argsort(group[side], stable=True)] for side in (chosen.nonzero()[:, 0], (~chosen).nonzero()[:, 0])]
        assert torch.equal(group[sides[0]], group[sides[1]]), "a group has not one chosen and one rejected sequence"
        return cls(*sides)

    def to_tokens(self, values: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """[P] -> [N]: every token of both sequences gets its pair's value."""
        order = torch.argsort(torch.cat([self.chosen, self.rejected]))
        return broadcast(torch.cat([values, values])[order], batch.cu_seqlens, batch.num_tokens)
