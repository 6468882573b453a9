"""Aggregations, KL estimators and normalisers as components: chosen by name, with their options."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.errors import PluginError
from core_rl.numerics.aggregation import Aggregator, LocalMean
from core_rl.numerics.kl import kl_estimate
from core_rl.plugins.build import build_component
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.references import load_reference
from core_rl.testing.batches import random_batch


def make(kind, name, *args, **options):
    component = Catalogue.discover(allow=["core-rl"]).find(kind, name).component
    return build_component(component, load_reference(component.config)(**options) if component.config else None, *args)


@pytest.mark.parametrize(
    "name", ["token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm", "prompt-mean"]
)
def test_aggregations_are_those_of_the_numerics(name):
    """The constant length is sampling's, unless it is given."""
    batch = random_batch(1)

    assert torch.equal(make("aggregation", name, 12).weights(batch), Aggregator(name, scale_length=12).weights(batch))
    if name == "seq-mean-token-sum-norm":
        given_length = make("aggregation", name, 12, scale_length=5).weights(batch)
        assert torch.equal(given_length, Aggregator(name, scale_length=5).weights(batch))


@given(seed=st.integers(0, 300), size=st.integers(1, 6))
@settings(deadline=None, max_examples=30)
def test_a_local_mean_is_a_mean_of_means_over_parts(seed, size):
    """Against a loop over parts of `size` sequences; parts without a token do not count."""
    batch = random_batch(seed, num_groups=4)
    counts = [int(part.sum()) for part in batch.loss_mask.split(batch.lengths.tolist())]
    parts = [counts[at : at + size] for at in range(0, len(counts), size)]
    alive = sum(sum(part) > 0 for part in parts)
    expected = [
        1 / (sum(parts[s // size]) * alive) if m else 0.0
        for s, m in zip(batch.sequence_ids.tolist(), batch.loss_mask.tolist(), strict=True)
    ]

    assert LocalMean(size).weights(batch).tolist() == pytest.approx(expected)
    assert make("aggregation", "token-mean-local", 12, sequences=size).weights(batch).sum().item() == pytest.approx(
        float(alive > 0)
    )


@pytest.mark.parametrize("name", ["k1", "abs", "k2", "k3", "k1+", "k3+"])
def test_kl_estimators_are_those_of_the_numerics(name):
    """By name; a bound keeps the estimate within it."""
    batch = random_batch(2, spread=2.0)
    pair = batch["logprobs"], batch["ref_logprobs"]

    assert torch.equal(make("kl_estimator", name)(*pair), kl_estimate(*pair, name))
    assert make("kl_estimator", name, value_bound=0.1)(*pair).abs().max() <= 0.1


def test_whitening_has_mean_zero_and_variance_one():
    """Over the mask; what is outside, or NaN, is 0 and in no statistic."""
    batch = random_batch(3, num_groups=6)
    values = batch["advantages"].clone()
    mask = batch.loss_mask
    values[mask.nonzero()[0]] = torch.nan
    group = batch["group"][batch.sequence_ids]
    out = make("normaliser", "whiten")(values, group, mask)
    known = mask & values.isfinite()

    assert out[known].mean().item() == pytest.approx(0.0, abs=1e-6)
    assert out[known].var().item() == pytest.approx(1.0, rel=1e-5)
    assert not out[~known].any()
    kept = make("normaliser", "whiten", centre=False)(values, group, mask)[known]
    assert kept.mean().item() == pytest.approx(values[known].mean().item(), rel=1e-4)


@pytest.mark.parametrize("levels", [("group", "group"), ("group", "batch"), ("batch", "none"), ("none", "batch")])
def test_moments_by_their_levels(levels):
    """Against loops over the groups."""
    rewards = torch.tensor([1.0, 0.0, 2.0, 5.0, 3.0, torch.nan])
    group = torch.tensor([0, 0, 0, 1, 1, 1])
    known = rewards.isfinite()
    out = make("normaliser", "moments", mean_level=levels[0], std_level=levels[1], eps=0.0)(rewards, group, known)
    members = {"batch": [rewards[known]] * 6, "group": [rewards[known & (group == g)] for g in group]}
    expected = []
    for index, value in enumerate(rewards.tolist()):
        mean = 0.0 if levels[0] == "none" else members[levels[0]][index].mean().item()
        std = 1.0 if levels[1] == "none" else members[levels[1]][index].std().item()
        expected.append((value - mean) / std if known[index] else 0.0)

    assert out.tolist() == pytest.approx(expected, rel=1e-5)


def test_an_unknown_name_is_told_with_the_nearest():
    """As everywhere."""
    with pytest.raises(PluginError, match="token-mean"):
        make("aggregation", "token-meen")
