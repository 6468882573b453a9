"""Micro-batches under a token budget: lists of sequence indices of a packed batch, every sequence once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from core_rl.data.batch import PackedBatch
from core_rl.data.binning import first_fit_decreasing
from core_rl.numerics.segments import broadcast, segment_min


def split_into_micro_batches(batch: PackedBatch, max_tokens: int) -> list[list[int]]:
    """At most `max_tokens` tokens in each, except for a longer sequence, which is alone."""
    return first_fit_decreasing(batch.lengths.tolist(), max_tokens)


def group_micro_batches(batch: PackedBatch, max_tokens: int, *, prefix_lengths: Sequence[int] | None = None) -> list[list[int]]:
    """The same, with the sequences of a group together wherever they fit, for an engine that computes their prompt once.

    `prefix_lengths` [S] says how many leading tokens a sequence shares with its group (see `shared_prefix_lengths`); they count once
    for each piece of a group in a micro-batch. A group above the budget is cut into as few pieces as first fit decreasing finds.
    """
    lengths = batch.lengths.tolist()
    prefixes = [0] * len(lengths) if prefix_lengths is None else list(prefix_lengths)
    members: dict[int, list[int]] = {}
    for sequence, group in enumerate(batch["group"].tolist()):
        members.setdefault(group, []).append(sequence)
    pieces: list[list[int]] = []
    for sequences in members.values():
        room = max(1, max_tokens - prefixes[sequences[0]])
        own = [lengths[sequence] - prefixes[sequence] for sequence in sequences]
        pieces += [[sequences[i] for i in piece] for piece in first_fit_decreasing(own, room)]
    costs = [prefixes[piece[0]] + sum(lengths[s] - prefixes[s] for s in piece) for piece in pieces]
    return sorted(sorted(s for i in chosen for s in pieces[i]) for chosen in first_fit_decreasing(costs, max_tokens))


def whole_group_micro_batches(
    batch: PackedBatch, max_tokens: int, *, prefix_lengths: Sequence[int] | None = None
) -> list[list[int]]:
    """The same for losses of whole groups: no group is ever cut, and one above the budget is alone."""
    lengths = batch.lengths.tolist()
    prefixes = [0] * len(lengths) if prefix_lengths is None else list(prefix_lengths)
    members: dict[int, list[int]] = {}
    for sequence, group in enumerate(batch["group"].tolist()):
        members.setdefault(group, []).append(sequence)
    groups = list(members.values())
    costs = [prefixes[group[0]] + sum(lengths[s] - prefixes[s] for s in group) for group in groups]
    return sorted(sorted(s for i in chosen for s in groups[i]) for chosen in first_fit_decreasing(costs, max_tokens))


def shared_prefix_lengths(batch: PackedBatch) -> list[int]:
    """[S]: how many leading tokens all sequences of its group have in common, without any token of the loss mask.

    A token in the mask is written by the policy: it is left out even where all samples happen to agree on it.
    """
    starts, count = batch.cu_seqlens[:-1].long(), batch.num_tokens
    _, group = torch.unique(batch["group"], return_inverse=True)
    num_groups = int(group.max()) + 1
    first = torch.full((num_groups,), batch.num_sequences, device=group.device)
    first = first.scatter_reduce(0, group, torch.arange(batch.num_sequences, device=group.device), "amin")
    leader = broadcast(first[group], batch.cu_seqlens, count)
    position = batch.positions.long()
    # beyond the leader's end this compares with another sequence, which its own length, taken below, makes harmless
    same = (batch.tokens == batch.tokens[(starts[leader] + position).clamp(max=count - 1)]) & ~batch.loss_mask
    agreed = segment_min(position.double(), batch.cu_seqlens, ~same).minimum(batch.lengths.double())
    shortest = torch.full((num_groups,), float("inf"), dtype=torch.float64, device=group.device)
    shortest = shortest.scatter_reduce(0, group, agreed, "amin")
    return [int(length) for length in shortest[group].tolist()]
