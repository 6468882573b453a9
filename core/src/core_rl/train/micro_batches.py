"""How the sequences of a batch are computed: in micro-batches, on one rank or on several.

S sequences. Every rank of an engine has the whole batch and comes to the same plan, so that no message is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import torch

from core_rl.data.binning import karmarkar_karp
from core_rl.data.micro_batches import (
    group_micro_batches,
    shared_prefix_lengths,
    split_into_micro_batches,
    whole_group_micro_batches,
)

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import LossOutput, Unit


@attrs.frozen(kw_only=True)
class MicroBatch:
    """Sequences that are computed at once. One that does not count keeps a rank in step with the others: its loss has weight 0."""

    sequences: Sequence[int]
    counts: bool = True


@attrs.frozen(kw_only=True)
class Plan:
    """Who computes what. `prefixes` [S] are the leading tokens that a sequence shares with its group, 0 where nothing is shared."""

    prefixes: Sequence[int]
    max_tokens: int
    unit: Unit = "sequence"
    shares: bool = False

    @classmethod
    def of(cls, batch: PackedBatch, max_tokens: int, *, unit: Unit = "sequence", share_prefixes: bool = False) -> Plan:
        shares = share_prefixes and "group" in batch
        prefixes = shared_prefix_lengths(batch) if shares else [0] * batch.num_sequences
        return cls(prefixes=prefixes, max_tokens=max_tokens, unit=unit if "group" in batch else "sequence", shares=shares)

    def micro_batches(self, batch: PackedBatch) -> list[list[int]]:
        """Of one rank: lists of sequences that have a token to score; the others would change nothing."""
        return self._split(batch, scored_sequences(batch))

    def of_ranks(self, batch: PackedBatch, ranks: int) -> list[list[MicroBatch]]:
        """The micro-batches of every data-parallel rank: as equal in tokens as can be, and equal in number. Empty without a scored token.

        A rank that has fewer computes the shortest sequence once more, and does not count it.
        """
        chosen = scored_sequences(batch)
        if not chosen:
            return [[] for _ in range(ranks)]
        lists = [self._split(batch, sequences) for sequences in self._shares_of(batch, chosen, ranks)]
        lengths = batch.lengths.tolist()
        filler = MicroBatch(sequences=[min(chosen, key=lambda s: lengths[s])], counts=False)
        most = max(len(parts) for parts in lists)
        return [[MicroBatch(sequences=part) for part in parts] + [filler] * (most - len(parts)) for parts in lists]

    def _shares_of(self, batch: PackedBatch, chosen: Sequence[int], ranks: int) -> list[list[int]]:
        """Whole groups where the loss asks for them, or where their prompts are computed once and there are enough of them."""
        lengths = batch.lengths.tolist()
        items = [[s] for s in chosen]
        if self.unit == "group" or self.shares:
            members: dict[int, list[int]] = {}
            names = batch["group"].tolist()
            for s in chosen:
                members.setdefault(names[s], []).append(s)
            if self.unit == "group" or len(members) >= ranks:
                items = list(members.values())
        costs = [self.prefixes[item[0]] + sum(lengths[s] - self.prefixes[s] for s in item) for item in items]
        return [sorted(s for i in part for s in items[i]) for part in karmarkar_karp(costs, ranks)]

    def _split(self, batch: PackedBatch, chosen: Sequence[int]) -> list[list[int]]:
        if not chosen:
            return []
        part, shared = batch.select(chosen), [self.prefixes[s] for s in chosen]
        if self.unit == "group":
            lists = whole_group_micro_batches(part, self.max_tokens, prefix_lengths=shared)
        elif self.shares:
            lists = group_micro_batches(part, self.max_tokens, prefix_lengths=shared)
        else:
            lists = split_into_micro_batches(part, self.max_tokens)
        return [[chosen[i] for i in members] for members in lists]


def scored_sequences(batch: PackedBatch) -> list[int]:
    """Those with a token in the loss mask."""
    scored = torch.zeros(batch.num_sequences, dtype=torch.bool)
    scored[batch.sequence_ids[batch.loss_mask]] = True
    found: list[int] = scored.nonzero()[:, 0].tolist()
    return found


def scalar_loss(loss: LossOutput, weight: torch.Tensor) -> torch.Tensor:
    """What a micro-batch adds to the loss of the step: sum_t weight_t · values_t + sum_t direct_t."""
    used = weight != 0  # what a loss says of other tokens must not count, not even NaN
    value = (loss.values[used] * weight[used]).sum()
    return value if loss.direct is None else value + loss.direct.sum()
