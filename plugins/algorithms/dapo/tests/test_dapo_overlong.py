"""The reward `overlong`, against the paper's three cases."""

from __future__ import annotations

import pytest

from core_rl.data.sample import Prompt, Sample, Turn
from core_rl_dapo.config import OverlongConfig
from core_rl_dapo.overlong import Overlong


def score(length, *, limit=100, tool_tokens=0, **options):
    turns = [Turn(tokens=[1] * 7, generated=False), Turn(tokens=[2] * length, generated=True, logprobs=[-1.0] * length)]
    if tool_tokens:
        turns.append(Turn(tokens=[3] * tool_tokens, generated=False))
    sample = Sample(
        prompt=Prompt(id="p", text="x"),
        turns=turns,
        finish_reason="stop",
        completion_text="",
        metadata={"max_new_tokens": limit},
    )
    return Overlong(OverlongConfig(**options)).score(sample)


def paper(length, longest, cache):
    """Equation 13 of 2503.14476, case by case."""
    if length <= longest - cache:
        return 0.0
    if length <= longest:
        return (longest - cache - length) / cache
    return -1.0


@pytest.mark.parametrize("cache", [1, 20, 100])
def test_it_is_the_papers(cache):
    """At every length, past the longest completion too."""
    for length in range(131):
        assert score(length, cache=cache) == pytest.approx(paper(length, 100, cache)), length


@pytest.mark.parametrize(("length", "expected"), [(80, 0.0), (81, -0.05), (90, -0.5), (100, -1.0), (110, -1.0)])
def test_the_cache_is_a_fifth_where_nothing_is_said(length, expected):
    """4096 of the paper's 20480."""
    assert score(length) == pytest.approx(expected)


@pytest.mark.parametrize(("length", "expected"), [(80, 0.0), (90, -1.0), (100, -2.0), (110, -3.0)])
def test_without_a_floor_the_penalty_goes_on_growing(length, expected):
    """verl's form: min(-(L - E) / cache · factor, 0)."""
    assert score(length, factor=2.0, floor=False) == pytest.approx(expected)
    assert score(length, factor=2.0) == pytest.approx(max(expected, -2.0))


def test_the_longest_completion_may_be_given():
    """Below what sampling allows, as one whose budget is shorter than the limit."""
    assert score(30, max_length=40, cache=20) == pytest.approx(-0.5)
    assert score(30, limit=10_000, max_length=40, cache=20) == pytest.approx(-0.5)


def test_tokens_of_tools_and_prompts_do_not_count():
    """Only what the policy wrote."""
    assert score(80, tool_tokens=50) == 0.0


def test_nothing_generated_costs_nothing():
    """With a cache as long as the longest completion, too."""
    assert score(0, cache=100) == 0.0
