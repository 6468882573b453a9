"""The order of prompts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.data.sample import Prompt
from core_rl.errors import DataError
from core_rl.loops.feed import PromptFeed
from core_rl.seeds import derive

ROWS = [Prompt(id=str(index), text="x") for index in range(7)]


@given(counts=st.lists(st.integers(1, 10), min_size=1, max_size=6), seed=st.integers(0, 5))
@settings(deadline=None, max_examples=40)
def test_every_epoch_uses_every_prompt_once(counts, seed):
    """However the prompts are drawn, seven in a row from an epoch's start are all seven."""
    feed = PromptFeed(ROWS, seed=seed)
    taken = [prompt.id for count in counts for prompt in feed.next(count)]

    for start in range(0, len(taken) - 6, 7):
        assert sorted(taken[start : start + 7]) == sorted(row.id for row in ROWS)


@given(before=st.integers(0, 30), after=st.integers(1, 20))
@settings(deadline=None, max_examples=40)
def test_a_position_is_all_there_is_to_resume(before, after):
    """A feed made at a position goes on exactly like one that got there by itself."""
    feed = PromptFeed(ROWS, seed=3)
    feed.next(before) if before else None
    resumed = PromptFeed(ROWS, seed=3, position=before)

    assert resumed.next(after) == feed.next(after)


def test_epochs_and_seeds_have_orders_of_their_own():
    """The second epoch is not the first again, and another seed is another order."""
    feed = PromptFeed(ROWS, seed=1)
    first, second = feed.next(7), feed.next(7)

    assert first != second
    assert PromptFeed(ROWS, seed=2).next(7) != first
    assert feed.epoch == 2.0


def test_no_prompts_is_an_error():
    """There is nothing to train on."""
    with pytest.raises(DataError, match="the data set is empty"):
        PromptFeed([], seed=1)


def test_derived_seeds_are_stable_and_different():
    """The value is fixed for all time: resumed runs depend on it."""
    assert derive(1, "rollout", 3, 0) == 3051432220766216481
    assert len({derive(1, "rollout", step, index) for step in range(50) for index in range(50)}) == 2500
    assert derive(1, "ab", "c") != derive(1, "a", "bc")
