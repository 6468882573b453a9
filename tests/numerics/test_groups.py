"""Group statistics: the definition one sample at a time, and the rules at the edges."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.numerics.groups import Groups, group_mean, group_std, normalise

from . import reference

REWARDS = st.lists(
    st.tuples(st.sampled_from([None, 0.0, 0.0, 1.0, 0.25, -3.5, 1e4]), st.integers(0, 3)), min_size=1, max_size=12
)
LEVELS = ["group", "batch", "none"]


@pytest.mark.parametrize(("mean_level", "std_level"), list(itertools.product(LEVELS, LEVELS)))
@given(samples=REWARDS, ddof=st.sampled_from([0, 1]), leave_one_out=st.sampled_from(["none", "mean", "std", "both"]))
@settings(deadline=None, max_examples=30)
def test_every_option_is_the_definition(mean_level, std_level, samples, ddof, leave_one_out):
    """Means and deviations of the group or the batch, with or without the sample itself, failed rewards left out."""
    rewards, groups = [r for r, _ in samples], [g for _, g in samples]
    tensor = torch.tensor([math.nan if r is None else r for r in rewards])
    options = {"mean_level": mean_level, "std_level": std_level, "leave_one_out": leave_one_out, "eps": 1e-6}
    found = normalise(tensor, torch.tensor(groups), std="sample" if ddof else "population", **options)
    expected = reference.group_normalised(rewards, groups, ddof=ddof, **options)

    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)


def _normalise(rewards, **options):
    return normalise(torch.tensor(rewards), torch.zeros(len(rewards), dtype=torch.int64), **options).tolist()


def test_by_hand():
    """One winner of four: sample deviation 1/2, population deviation sqrt(3)/4."""
    assert _normalise([1.0, 0.0, 0.0, 0.0], eps=0.0) == pytest.approx([1.5, -0.5, -0.5, -0.5])
    assert _normalise([1.0, 0.0, 0.0, 0.0], eps=0.0, std="population") == pytest.approx(
        [math.sqrt(3)] + [-1 / math.sqrt(3)] * 3
    )
    assert _normalise([1.0, 0.0, 0.0, 0.0], std_level="none") == pytest.approx([0.75, -0.25, -0.25, -0.25])


def test_leave_one_out_of_everything_is_nemo_rl():
    """The winner is not scaled, since the others have no spread: the values its own function gives."""
    assert _normalise([1.0, 0.0, 0.0, 0.0], leave_one_out="both") == pytest.approx([1.0, -0.577, -0.577, -0.577], abs=1e-3)


def test_leave_one_out_of_the_mean_is_rloo():
    """(R - mean) n / (n - 1)."""
    rewards = [3.0, 1.0, 0.5, 0.0]
    plain = _normalise(rewards, std_level="none")

    assert _normalise(rewards, std_level="none", leave_one_out="mean") == pytest.approx([x * 4 / 3 for x in plain])


@pytest.mark.parametrize("leave_one_out", ["none", "mean", "std", "both"])
@pytest.mark.parametrize("rewards", [[0.7], [0.1] * 7, [1e6] * 3, [math.nan] * 3, [math.nan, 5.0]])
def test_nothing_to_compare_is_zero(rewards, leave_one_out):
    """A group of one, all equal, all failed, all failed but one: zeros, never NaN."""
    assert _normalise(rewards, leave_one_out=leave_one_out) == pytest.approx([0.0] * len(rewards), abs=1e-9)


def test_a_group_without_spread_is_not_blown_up():
    """Batch mean over group deviation: the difference that is left is not divided by eps."""
    pairs = normalise(torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.tensor([0, 0, 1, 1]), mean_level="batch")
    inexact = torch.tensor([0.1] * 3 + [0.3] * 3, dtype=torch.float64)
    triples = normalise(inexact, torch.tensor([0, 0, 0, 1, 1, 1]), mean_level="batch")

    assert pairs.tolist() == [0.5, 0.5, -0.5, -0.5]
    assert triples.tolist() == pytest.approx([-0.1] * 3 + [0.1] * 3)


@pytest.mark.parametrize("size", range(3, 20))
def test_others_without_spread_are_not_blown_up(size):
    """One sample unlike all the others: what is left without it is rounding, and not a deviation to divide by."""
    found = _normalise([0.7, *[0.1] * (size - 1)], leave_one_out="both")

    assert found[0] == pytest.approx(0.6, rel=1e-5)


def test_a_failed_reward_changes_no_other():
    """With it and without it, the rest have the same advantage."""
    with_it = _normalise([1.0, math.nan, 0.0, 0.5])

    assert with_it[1] == 0.0
    assert [with_it[0], *with_it[2:]] == _normalise([1.0, 0.0, 0.5])


def test_a_large_offset_costs_no_digits():
    """Rewards around ten million: float64 moments."""
    shifted = _normalise([1e7 + x for x in (0.0, 1.0, 2.0, 4.0)])

    assert shifted == pytest.approx(_normalise([0.0, 1.0, 2.0, 4.0]), rel=1e-5)


@given(samples=REWARDS, seed=st.integers(0, 50))
@settings(deadline=None, max_examples=30)
def test_the_order_of_samples_does_not_matter(samples, seed):
    """A permutation of the samples permutes the advantages."""
    rewards = torch.tensor([math.nan if r is None else r for r, _ in samples])
    groups = torch.tensor([g for _, g in samples])
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed))

    assert torch.allclose(normalise(rewards, groups)[order], normalise(rewards[order], groups[order]), atol=1e-6)


def test_moments_of_nothing_and_one():
    """The mean of no others is NaN, to be replaced by whoever asks; the deviation of fewer than two is 1."""
    group = torch.tensor([0, 1, 1])
    rewards = torch.tensor([2.0, 4.0, 8.0])

    assert group_mean(rewards, group, leave_one_out=True).tolist()[1:] == [8.0, 4.0]
    assert group_mean(rewards, group, leave_one_out=True)[0].isnan()
    assert group_std(rewards, group).tolist() == pytest.approx([1.0, 8**0.5, 8**0.5])
    assert group_std(rewards, group, leave_one_out=True).tolist() == [1.0, 1.0, 1.0]


def test_groups_may_have_any_names():
    """Names need be neither dense nor in order."""
    groups = Groups.of(torch.tensor([70, 5, 70, -1]))

    assert groups.spread(groups.sum(torch.tensor([1.0, 2.0, 3.0, 4.0]))).tolist() == [4.0, 2.0, 4.0, 4.0]
