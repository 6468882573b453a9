"""The loss `reinforce`: value, gradient, limits, and no dependence on how a batch is cut up."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.testing.batches import random_batch
from core_rl.testing.losses import (
    assert_equals_reference,
    assert_finite,
    assert_same_for_any_split,
    assert_same_in_any_order,
    random_split,
    value_and_gradient,
)
from core_rl_reinforce.config import ReinforceLossConfig
from core_rl_reinforce.reinforce import Reinforce

OPTIONS = [{}, {"importance": "rollout"}, {"importance": "rollout", "cap": 1.2}]
AGGREGATIONS = [
    "token-mean",
    "token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
    "prompt-mean",
]


def by_definition(options):
    """-A log pi, times a weight that is a plain number."""

    def reference(row):
        for new, advantage, sampled in zip(row["logprobs"], row["advantages"], row["rollout_logprobs"], strict=True):
            weight = math.exp(new.item() - sampled.item()) if options else 1.0
            yield -min(weight, options.get("cap", math.inf)) * advantage.item() * new

    return reference


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_value_and_gradient_are_those_of_the_definition(options):
    """In float64; the weight has no gradient."""
    assert_equals_reference(Reinforce(ReinforceLossConfig(**options)), by_definition(options), spread=1.0)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_extremes_stay_finite(options):
    """Log-ratios of ±50 and ±1e4, probability 1, an empty mask."""
    assert_finite(Reinforce(ReinforceLossConfig(**options)))


def test_the_gradient_is_minus_the_advantage():
    """Whatever the policy says, without importance weights."""
    batch = random_batch(3)
    _, grad = value_and_gradient(Reinforce(ReinforceLossConfig()), batch)

    assert torch.equal(grad, (-batch["advantages"]).where(batch.loss_mask, 0.0))


def test_a_trainer_that_agrees_with_the_sampler_weighs_nothing():
    """pi = mu: the weight is 1."""
    batch = random_batch(3)
    batch = batch.with_tokens(rollout_logprobs=batch["logprobs"])
    plain, weighed = (value_and_gradient(Reinforce(ReinforceLossConfig(**options)), batch) for options in OPTIONS[:2])

    assert torch.equal(plain[0], weighed[0])
    assert torch.equal(plain[1], weighed[1])


def test_metrics_say_what_the_cap_did():
    """A weight of e on every token and a cap of 2: mean 2, all of them capped."""
    batch = random_batch(3)
    batch = batch.with_tokens(rollout_logprobs=batch["logprobs"] - 1)
    found = Reinforce(ReinforceLossConfig(importance="rollout", cap=2.0))(batch["logprobs"], batch).metrics

    assert {name: float(total / count) for name, (total, count) in found.items()} == {
        "reinforce/weight_mean": 2.0,
        "reinforce/capped_frac": 1.0,
    }
    assert Reinforce(ReinforceLossConfig())(batch["logprobs"], batch).metrics == {}


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("options", OPTIONS[1:], ids=str)
@given(seed=st.integers(0, 500), ranks=st.sampled_from([1, 2, 4]), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=10)
def test_any_split_and_order_has_the_same_gradient(aggregation, options, seed, ranks, random):
    """1, 2 or 4 ranks, any micro-batches, any order; ragged, with a wholly masked sequence."""
    loss = Reinforce(ReinforceLossConfig(**options))
    count = random_batch(seed).num_sequences
    split = random_split(random, count, ranks)
    order = [index for rank in split for part in rank for index in part]

    assert_same_for_any_split(loss, seed, split, aggregation=aggregation)
    assert_same_in_any_order(loss, seed, order, aggregation=aggregation)
