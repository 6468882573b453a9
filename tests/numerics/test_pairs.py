"""Pairs are found by group and side, whatever the order of their sequences."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core_rl.data.batch import PackedBatch
from core_rl.numerics.pairs import Pairs


def batch_of(groups, chosen):
    """Sequence s has s + 1 tokens."""
    lengths = torch.arange(len(groups)) + 1
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int()
    count = int(cu_seqlens[-1])
    zeros = torch.zeros(count, dtype=torch.int64)
    fields = {"group": torch.tensor(groups), "chosen": torch.tensor(chosen)}
    return PackedBatch(
        tokens=zeros, cu_seqlens=cu_seqlens, positions=zeros.int(), loss_mask=zeros.bool(), sequence_fields=fields
    )


@given(st.permutations([(group, side) for group in (3, 5, 9) for side in (True, False)]))
def test_both_sides_of_a_pair_find_each_other(sequences):
    """In the order of the groups; a pair's value reaches the tokens of both of its sequences and no others."""
    batch = batch_of([group for group, _ in sequences], [side for _, side in sequences])
    pairs = Pairs.of(batch)
    values = pairs.to_tokens(torch.tensor([3.0, 5.0, 9.0]), batch)

    assert [sequences[index] for index in pairs.chosen.tolist()] == [(3, True), (5, True), (9, True)]
    assert [sequences[index] for index in pairs.rejected.tolist()] == [(3, False), (5, False), (9, False)]
    assert values.tolist() == [float(group) for number, (group, _) in enumerate(sequences) for _ in range(number + 1)]


def test_a_group_without_two_sides_is_our_own_mistake():
    """An engine that tears pairs apart is told at once."""
    with pytest.raises(AssertionError, match="one chosen and one rejected"):
        Pairs.of(batch_of([1, 2], [True, False]))
