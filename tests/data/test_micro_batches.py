"""Micro-batches under a token budget."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.data.batch import PackedBatch
from core_rl.data.micro_batches import (
    group_micro_batches,
    shared_prefix_lengths,
    split_into_micro_batches,
    whole_group_micro_batches,
)
from core_rl.testing.batches import random_batch


def _cost(batch, sequences, prefixes):
    """Tokens of a micro-batch when the shared tokens of a group are there once."""
    lengths, groups = batch.lengths.tolist(), batch["group"].tolist()
    own = sum(lengths[s] - prefixes[s] for s in sequences)
    return own + sum({groups[s]: prefixes[s] for s in sequences}.values())


@given(seed=st.integers(0, 300), budget=st.integers(1, 60), shared=st.booleans())
@settings(deadline=None, max_examples=50)
def test_every_sequence_once_within_the_budget(seed, budget, shared):
    """Both ways of splitting; only a sequence that is itself too long goes over."""
    batch = random_batch(seed, num_groups=5)
    prefixes = shared_prefix_lengths(batch) if shared else [0] * batch.num_sequences
    grouped = group_micro_batches(batch, budget, prefix_lengths=prefixes)
    plain = split_into_micro_batches(batch, budget)

    for parts, saved in ((grouped, prefixes), (plain, [0] * batch.num_sequences)):
        assert sorted(s for part in parts for s in part) == list(range(batch.num_sequences))
        assert all(len(part) == 1 or _cost(batch, part, saved) <= budget for part in parts)


@given(seed=st.integers(0, 300), budget=st.integers(27, 60))
@settings(deadline=None, max_examples=30)
def test_groups_that_fit_stay_together(seed, budget):
    """Three sequences of nine tokens are at most 27: no group is in two micro-batches."""
    batch = random_batch(seed, num_groups=5)
    groups = batch["group"].tolist()
    homes = {(groups[s], part) for part, members in enumerate(group_micro_batches(batch, budget)) for s in members}

    assert len(homes) == len(set(groups))


@given(seed=st.integers(0, 300), budget=st.integers(1, 60), shared=st.booleans())
@settings(deadline=None, max_examples=50)
def test_whole_groups_are_never_cut(seed, budget, shared):
    """Every sequence once and every group in one micro-batch; only a group that is itself too large goes over, alone."""
    batch = random_batch(seed, num_groups=5)
    groups = batch["group"].tolist()
    prefixes = shared_prefix_lengths(batch) if shared else [0] * batch.num_sequences
    parts = whole_group_micro_batches(batch, budget, prefix_lengths=prefixes)
    members = [{groups[s] for s in part} for part in parts]

    assert sorted(s for part in parts for s in part) == list(range(batch.num_sequences))
    assert sum(len(part) for part in members) == len(set(groups))
    assert all(len(kinds) == 1 or _cost(batch, part, prefixes) <= budget for part, kinds in zip(parts, members, strict=True))


def _batch(sequences, generated, group):
    lengths = torch.tensor([len(s) for s in sequences])
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return PackedBatch(
        tokens=torch.tensor([token for s in sequences for token in s]),
        cu_seqlens=cu_seqlens.int(),
        positions=torch.cat([torch.arange(n) for n in lengths.tolist()]).int(),
        loss_mask=torch.tensor([flag for flags in generated for flag in flags], dtype=torch.bool),
        sequence_fields={"group": torch.tensor(group)},
    )


def test_shared_prefixes_by_hand():
    """What all sequences of a group begin with, up to the first written token; groups need not stand together."""
    batch = _batch(
        [[1, 2, 3, 7], [5, 5, 5], [1, 2, 3, 7, 9], [1, 2, 4], [5, 5]],
        [[0, 0, 0, 1], [0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 1], [0, 1]],
        [4, 2, 4, 4, 2],
    )

    assert shared_prefix_lengths(batch) == [2, 1, 2, 2, 1]


def test_a_group_shares_its_prompt_in_a_budget():
    """Prompt 6, completions 2: four samples cost 14 with the prompt once, so that a budget of 14 takes them all."""
    sequences = [[1, 2, 3, 4, 5, 6, s, s] for s in range(4)]
    batch = _batch(sequences, [[0] * 6 + [1, 1]] * 4, [0] * 4)
    prefixes = shared_prefix_lengths(batch)

    assert group_micro_batches(batch, 14, prefix_lengths=prefixes) == [[0, 1, 2, 3]]
    assert group_micro_batches(batch, 13, prefix_lengths=prefixes) == [[0, 1, 2], [3]]
    assert group_micro_batches(batch, 16) == [[0, 1], [2, 3]]


def test_whole_groups_by_hand():
    """Groups of 16 tokens, 10 with their prompt once: two in a budget of 20; groups need not stand together; 5 is enough for none."""
    sequences = [[g, g, g, g, g, g, s, s] for s, g in enumerate([1, 2, 1, 2])]
    batch = _batch(sequences, [[0] * 6 + [1, 1]] * 4, [7, 3, 7, 3])
    prefixes = shared_prefix_lengths(batch)

    assert whole_group_micro_batches(batch, 20, prefix_lengths=prefixes) == [[0, 1, 2, 3]]
    assert whole_group_micro_batches(batch, 20) == [[0, 2], [1, 3]]
    assert whole_group_micro_batches(batch, 5, prefix_lengths=prefixes) == [[0, 2], [1, 3]]
