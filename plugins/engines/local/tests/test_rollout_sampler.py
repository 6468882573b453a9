"""Sampling itself: is it the distribution that it says?"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.roles.rollout import SamplingParams
from core_rl_local._sampler import Draw, sample, uniforms


def draws(count, params, *, seed=0):
    return [Draw(params=params, seed=seed, sample=k, generated=[], end_ids=()) for k in range(count)]


def chi_square(observed, expected):
    """Per degree of freedom; near 1 for a fair sampler."""
    used = expected > 5
    return float((((observed - expected) ** 2 / expected)[used]).sum() / max(int(used.sum()) - 1, 1))


@pytest.mark.parametrize(
    "params", [SamplingParams(), SamplingParams(temperature=0.5), SamplingParams(top_k=7), SamplingParams(top_p=0.7)]
)
def test_frequencies_follow_the_probabilities(params):
    """60,000 draws from 300 tokens, more than two blocks of the two-level search."""
    torch.manual_seed(0)
    logits = torch.randn(300) * 1.5
    count = 60_000
    tokens, logprobs = sample(logits.repeat(count, 1), draws(count, params))
    observed = torch.bincount(torch.tensor(tokens), minlength=300).double()
    claimed = torch.zeros(300, dtype=torch.float64)
    claimed[torch.tensor(tokens)] = torch.tensor(logprobs, dtype=torch.float64).exp()

    assert abs(float(claimed.sum()) - 1) < 0.01
    assert 0.7 < chi_square(observed, claimed * count) < 1.4


@given(
    seed=st.integers(0, 2**31),
    vocabulary=st.integers(1, 400),
    scale=st.floats(0.01, 60),
    top_k=st.one_of(st.none(), st.integers(1, 50)),
    top_p=st.floats(0.05, 1.0),
)
@settings(deadline=None, max_examples=80)
def test_a_token_is_always_one_that_may_come(seed, vocabulary, scale, top_k, top_p):
    """Inside the vocabulary, with a finite log-probability, never below 0 in probability or beyond top-k."""
    logits = torch.randn(5, vocabulary, generator=torch.Generator().manual_seed(seed)) * scale
    logits[:, seed % vocabulary] = -torch.inf if vocabulary > 1 else 0.0
    kept = logits.clone()
    params = SamplingParams(top_k=top_k, top_p=top_p)
    tokens, logprobs = sample(logits, draws(5, params, seed=seed))

    for row, token in enumerate(tokens):
        rank = int((kept[row] > kept[row, token]).sum())
        assert kept[row, token] > -torch.inf
        assert rank < (top_k or vocabulary)
        assert -1e4 < logprobs[row] <= 1e-6


def test_top_p_beyond_the_first_candidates():
    """A flat distribution over 5,000 tokens: half of its mass needs more than the 1,024 looked at first."""
    tokens, logprobs = sample(torch.zeros(50, 5000), draws(50, SamplingParams(top_p=0.5)))

    assert len(set(tokens)) > 40
    assert np.allclose(np.exp(logprobs), 1 / 2500, rtol=2e-3)


def test_rows_of_every_kind_stand_beside_each_other():
    """Each says what it says alone."""
    kinds = [{}, {"top_k": 3}, {"top_p": 0.6}, {"temperature": 0.0}, {"top_k": 5, "top_p": 0.8, "temperature": 1.3}]
    logits = torch.randn(10, 40, generator=torch.Generator().manual_seed(3)) * 2
    each = [draws(1, SamplingParams(**kinds[row % 5]), seed=row)[0] for row in range(10)]
    alone = [sample(logits[row : row + 1].clone(), [draw]) for row, draw in enumerate(each)]
    tokens, logprobs = sample(logits.clone(), each)

    assert tokens == [one[0][0] for one in alone]
    assert logprobs == pytest.approx([one[1][0] for one in alone], abs=1e-5)


def test_greedy_rows_stand_beside_sampled_ones():
    """A greedy row takes the likeliest token with its probability in the model's own distribution."""
    logits = torch.tensor([[0.0, 1.0, 3.0], [0.0, 1.0, 3.0]])
    mixed = [*draws(1, SamplingParams(temperature=0.0)), *draws(1, SamplingParams(top_k=1))]
    tokens, logprobs = sample(logits.clone(), mixed)

    assert tokens == [2, 2]
    assert abs(logprobs[0] - float(logits[0].log_softmax(-1)[2])) < 1e-6
    assert logprobs[1] == pytest.approx(0.0, abs=1e-6)


def test_uniform_numbers_are_uniform_and_differ_in_each_coordinate():
    """Means and correlations over seeds, samples and positions."""
    params = SamplingParams()
    grid = [
        Draw(params=params, seed=seed, sample=k, generated=[0] * t, end_ids=())
        for seed in range(20) for k in range(20) for t in range(20)
    ]  # fmt: skip
    values = uniforms(grid).reshape(20, 20, 20)

    assert abs(values.mean() - 0.5) < 0.02
    assert values.min() >= 0
    assert values.max() < 1
    assert len(np.unique(values)) > 7990
    for axis in range(3):
        rolled = np.roll(values, 1, axis)
        assert abs(np.corrcoef(values.ravel(), rolled.ravel())[0, 1]) < 0.05
