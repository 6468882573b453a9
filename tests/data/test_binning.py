"""First-fit-decreasing bins and Karmarkar-Karp parts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.data.binning import first_fit_decreasing, karmarkar_karp
from core_rl.errors import DataError

LENGTHS = st.lists(st.integers(0, 60), max_size=40)


def _naive_first_fit(lengths, budget):
    bins = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        for members in bins:
            if sum(lengths[i] for i in members) + lengths[index] <= budget:
                members.append(index)
                break
        else:
            bins.append([index])
    return sorted(sorted(members) for members in bins)


@given(lengths=LENGTHS, budget=st.integers(1, 70))
@settings(deadline=None, max_examples=50)
def test_bins_hold_every_index_once_within_the_budget(lengths, budget):
    """Only a length above the budget makes a bin above it, and it is alone (but for lengths of 0)."""
    bins = first_fit_decreasing(lengths, budget)

    assert sorted(index for members in bins for index in members) == list(range(len(lengths)))
    for members in bins:
        total = sum(lengths[index] for index in members)
        assert total <= budget or sum(lengths[index] > 0 for index in members) == 1


@given(lengths=st.lists(st.integers(1, 30), max_size=40), budget=st.integers(30, 70))
@settings(deadline=None, max_examples=50)
def test_the_tree_finds_what_a_plain_search_finds(lengths, budget):
    """The same bins as first fit decreasing by the book."""
    assert first_fit_decreasing(lengths, budget) == _naive_first_fit(lengths, budget)


def test_bins_by_hand():
    """A sequence longer than the budget has its own bin; equal lengths keep their order."""
    assert first_fit_decreasing([5, 4, 3, 3, 3, 20], 9) == [[0, 1], [2, 3, 4], [5]]
    assert first_fit_decreasing([2, 2, 2, 2], 4) == [[0, 1], [2, 3]]
    assert first_fit_decreasing([], 4) == []


@given(lengths=LENGTHS, parts=st.integers(1, 9))
@settings(deadline=None, max_examples=50)
def test_parts_hold_every_index_once(lengths, parts):
    """As many lists as asked for, and the largest sum within the bound of any sensible method."""
    lists = karmarkar_karp(lengths, parts)

    assert len(lists) == parts
    assert sorted(index for members in lists for index in members) == list(range(len(lengths)))
    assert max(sum(lengths[i] for i in members) for members in lists) <= sum(lengths) / parts + max(lengths, default=0)


@given(
    st.integers(1, 8).flatmap(
        lambda k: st.tuples(
            st.just(k), st.integers(0, 6).flatmap(lambda n: st.lists(st.integers(0, 60), min_size=n * k, max_size=n * k))
        )
    )
)
@settings(deadline=None, max_examples=50)
def test_parts_of_equal_size_have_it(case):
    """The same number of indices in each."""
    parts, lengths = case
    lists = karmarkar_karp(lengths, parts, equal_size=True)

    assert {len(members) for members in lists} == {len(lengths) // parts}
    assert sorted(index for members in lists for index in members) == list(range(len(lengths)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_parts_are_no_worse_than_longest_first(seed, parts):
    """The largest sum of the greedy method (each to the smallest part) is not beaten by it; equal sizes stay within 2 % of the mean."""
    lengths = [int(length) for length in random.Random(seed).choices(range(50, 2000), k=128)]
    greedy = [0] * parts
    for length in sorted(lengths, reverse=True):
        greedy[greedy.index(min(greedy))] += length

    def largest(lists):
        return max(sum(lengths[i] for i in members) for members in lists)

    assert largest(karmarkar_karp(lengths, parts)) <= max(greedy)
    assert largest(karmarkar_karp(lengths, parts, equal_size=True)) <= 1.02 * sum(lengths) / parts


def test_parts_by_hand():
    """The textbook case: differencing 8, 7, 6, 5, 4 leaves 2, that is 16 and 14."""
    lists = karmarkar_karp([8, 7, 6, 5, 4], 2)

    assert sorted(sum([8, 7, 6, 5, 4][i] for i in members) for members in lists) == [14, 16]
    assert karmarkar_karp([3], 3) == [[0], [], []]
    assert karmarkar_karp([], 2) == [[], []]


def test_what_cannot_be_asked_for():
    """A budget or a number of parts below 1, equal sizes that do not divide."""
    with pytest.raises(DataError, match="a token budget is at least 1, found 0"):
        first_fit_decreasing([1], 0)
    with pytest.raises(DataError, match="a number of parts is at least 1, found 0"):
        karmarkar_karp([1], 0)
    with pytest.raises(DataError, match="3 sequences do not divide into 2 parts"):
        karmarkar_karp([1, 2, 3], 2, equal_size=True)
