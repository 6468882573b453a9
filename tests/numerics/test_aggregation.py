"""Aggregations: weights from global denominators."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.errors import UserError
from core_rl.numerics.aggregation import Aggregator
from core_rl.numerics.names import Aggregation
from core_rl.testing.batches import random_batch

from . import reference

NAMES = get_args(Aggregation)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 200))
@settings(deadline=None, max_examples=25)
def test_the_weighted_sum_is_the_definition(name, seed):
    """sum_t w_t l_t is the loss of the definition, in a ragged batch with a wholly masked sequence."""
    batch = random_batch(seed)
    losses = torch.randn(batch.num_tokens, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weights = Aggregator(name, scale_length=16).weights(batch)
    expected = reference.aggregate(
        name, reference.rows(losses, batch), reference.rows(batch.loss_mask, batch), batch["group"].tolist(), 16
    )

    assert weights.dtype == torch.float32
    assert (weights[~batch.loss_mask] == 0).all()
    assert (weights * losses).sum().item() == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("token-mean", [0.25, 0.25, 0.25, 0.25]),
        ("token-sum", [1.0, 1.0, 1.0, 1.0]),
        ("seq-mean-token-mean", [0.5, 1 / 6, 1 / 6, 1 / 6]),
        ("seq-mean-token-sum", [0.5, 0.5, 0.5, 0.5]),
        ("seq-mean-token-sum-norm", [0.05, 0.05, 0.05, 0.05]),
        ("prompt-mean", [0.25, 0.25, 0.25, 0.25]),
    ],
)
def test_by_hand(name, expected):
    """One sequence with one token, one with three, one with none; all of one prompt."""
    batch = random_batch(0, num_groups=1, group_size=1).select([0, 0, 0])
    mask = torch.zeros_like(batch.loss_mask).index_fill(
        0, batch.cu_seqlens[[0, 1, 1, 1]] + torch.tensor([1, 1, 2, 3]), value=True
    )
    weights = Aggregator(name, scale_length=10).weights(batch.with_loss_mask(mask))

    assert weights[mask].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_mask_weighs_nothing(name):
    """All zeros, never NaN."""
    batch = random_batch(0)
    empty = batch.with_loss_mask(torch.zeros_like(batch.loss_mask))

    assert (Aggregator(name, scale_length=8).weights(empty) == 0).all()


def test_a_name_or_length_that_is_none_is_refused():
    """The message says what is expected."""
    with pytest.raises(UserError, match=r"expected one of token-mean, .*; found 'mean'"):
        Aggregator("mean")
    with pytest.raises(UserError, match="needs a scale length above 0, found None"):
        Aggregator("seq-mean-token-sum-norm")
