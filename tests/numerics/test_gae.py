"""Generalised advantage estimation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.numerics.gae import gae
from core_rl.testing.batches import random_batch

from . import reference


@given(seed=st.integers(0, 200), gamma=st.sampled_from([1.0, 0.9, 0.0]), lam=st.sampled_from([1.0, 0.95, 0.0]))
@settings(deadline=None, max_examples=40)
def test_the_definition(seed, gamma, lam):
    """Against the loop from the end of each row, with tool tokens and a wholly masked sequence."""
    batch = random_batch(seed, max_length=14)
    random = torch.Generator().manual_seed(seed)
    rewards, values = (torch.randn(batch.num_tokens, generator=random, dtype=torch.float64) for _ in range(2))
    advantages, returns = gae(rewards, values, batch.cu_seqlens, batch.loss_mask, gamma=gamma, lam=lam)
    expected = [
        reference.gae(*row, gamma, lam)
        for row in zip(*(reference.rows(x, batch) for x in (rewards, values, batch.loss_mask)), strict=True)
    ]

    assert advantages.tolist() == pytest.approx(reference.flat([row[0] for row in expected]), abs=1e-12)
    assert returns.tolist() == pytest.approx(reference.flat([row[1] for row in expected]), abs=1e-12)


def test_each_sequence_may_have_a_lambda_of_its_own():
    """As if it were estimated alone, with 0 and 1 among them."""
    batch = random_batch(7, num_groups=4, max_length=14)
    random = torch.Generator().manual_seed(7)
    rewards, values = (torch.randn(batch.num_tokens, generator=random, dtype=torch.float64) for _ in range(2))
    lam = torch.tensor([(0.0, 1.0, 0.9)[s % 3] for s in range(batch.num_sequences)], dtype=torch.float64)
    found = gae(rewards, values, batch.cu_seqlens, batch.loss_mask, gamma=0.9, lam=lam)
    per_row = zip(lam.tolist(), *(reference.rows(x, batch) for x in (rewards, values, batch.loss_mask)), strict=True)
    expected = [reference.gae(*row, 0.9, own) for own, *row in per_row]

    assert found[0].tolist() == pytest.approx(reference.flat([row[0] for row in expected]), abs=1e-12)
    assert found[1].tolist() == pytest.approx(reference.flat([row[1] for row in expected]), abs=1e-12)


def test_by_hand():
    """Reward 1 at the end, gamma 1: with lambda 1 A = 1 - V; with lambda 0 A is the one-step error."""
    rewards, values = torch.tensor([0.0, 0.0, 0.0, 1.0]), torch.tensor([9.0, 0.5, 0.25, 0.75])
    cu_seqlens, mask = torch.tensor([0, 4]), torch.tensor([False, True, True, True])

    assert gae(rewards, values, cu_seqlens, mask)[0].tolist() == [0.0, 0.5, 0.75, 0.25]
    assert gae(rewards, values, cu_seqlens, mask)[1].tolist() == [0.0, 1.0, 1.0, 1.0]
    assert gae(rewards, values, cu_seqlens, mask, lam=0.0)[0].tolist() == [0.0, -0.25, 0.5, 0.25]


def test_garbage_outside_the_mask_and_gradients_do_not_get_in():
    """NaN on prompt tokens is not read, and a critic's gradient does not flow into its target."""
    values = torch.tensor([torch.nan, 0.5, torch.nan, 0.25], requires_grad=True)
    mask = torch.tensor([False, True, False, True])
    advantages, returns = gae(torch.tensor([torch.nan, 0.0, torch.nan, 1.0]), values, torch.tensor([0, 4]), mask)

    assert advantages.tolist() == [0.0, 0.5, 0.0, 0.75]
    assert not advantages.requires_grad
    assert not returns.requires_grad


def test_an_empty_mask_is_all_zero():
    """No time step, no advantage."""
    batch = random_batch(0)
    nothing = torch.zeros_like(batch.loss_mask)
    advantages, returns = gae(batch["logprobs"], batch["entropy"], batch.cu_seqlens, nothing)

    assert (advantages == 0).all()
    assert (returns == 0).all()
