"""The rejection `ratio_band`: every metric, level, aggregate and action; asymmetric bounds; edges."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.testing.batches import in_double, random_batch
from core_rl_rejections.config import RatioBandConfig
from core_rl_rejections.ratio_band import RatioBand


def statistic(metric, log_p, log_q):
    """Of one token, from the definition; ratios as logarithms."""
    d = log_p - log_q
    p, q = min(math.exp(log_p), 1 - 1e-12), min(math.exp(log_q), 1 - 1e-12)

    def binary(a, b):
        return a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b))

    table = {
        "ratio": lambda: d,
        "k1": lambda: d,
        "k2": lambda: d * d / 2,
        "k3": lambda: math.exp(-d) - 1 + d,
        "k3_rho": lambda: math.exp(d) - 1 - d,
        "binary_kl": lambda: max(binary(p, q), binary(q, p)),
    }
    return table[metric]()


def expected(batch, config):
    """[N] of what is inside the band, by loops."""
    kept = []
    bounds = batch.cu_seqlens.tolist()
    for start, end in pairwise(bounds):
        where = [t for t in range(start, end) if batch.loss_mask[t]]
        values = {
            t: statistic(config.metric, batch["old_logprobs"][t].item(), batch["rollout_logprobs"][t].item()) for t in where
        }
        if config.level == "sequence" and where:
            every = list(values.values())
            one = {"sum": sum(every), "mean": sum(every) / len(every), "max": max(every)}[config.aggregate]
            values = dict.fromkeys(where, one)
        for t in range(start, end):
            value = values.get(t)
            if value is not None and config.metric == "ratio":
                value = math.exp(value)
            low = config.lower is None or value is None or value >= config.lower
            high = config.upper is None or value is None or value <= config.upper
            kept.append(low and high)
    return kept


@pytest.mark.parametrize("metric", ["ratio", "k1", "k2", "k3", "k3_rho", "binary_kl"])
@pytest.mark.parametrize("over", [("token", "mean"), ("sequence", "sum"), ("sequence", "mean"), ("sequence", "max")])
@given(seed=st.integers(0, 300), lower=st.sampled_from([None, -0.2, 0.1, 0.8]), width=st.sampled_from([None, 0.3, 1.5]))
@settings(deadline=None, max_examples=15)
def test_what_is_kept_is_what_the_definition_keeps(metric, over, seed, lower, width):
    """Any bounds, ragged sequences, one of them wholly masked."""
    batch = in_double(random_batch(seed, num_groups=4))
    upper = None if width is None else (lower or 0.0) + width
    config = RatioBandConfig(metric=metric, level=over[0], aggregate=over[1], lower=lower, upper=upper)
    keep = RatioBand(config)(batch).keep

    assert (keep & batch.loss_mask).tolist() == [
        a and b for a, b in zip(expected(batch, config), batch.loss_mask.tolist(), strict=True)
    ]


def one_token(log_ratio, **options):
    batch = random_batch(0, num_groups=1, group_size=1, max_length=2)
    batch = batch.with_loss_mask(torch.tensor([False, True])).with_tokens(
        old_logprobs=torch.tensor([0.0, -2.0 + log_ratio]), rollout_logprobs=torch.tensor([0.0, -2.0])
    )
    return RatioBand(RatioBandConfig(**options))(batch)


def test_bounds_are_on_trainer_over_sampler():
    """0.5 to 5 keeps rho = e and rejects 1/e. verl 0.9.1's token_k1 with "0.5_5.0" does the opposite."""
    kept, rejected = (bool(one_token(x, lower=0.5, upper=5.0).keep[1]) for x in (1.0, -1.0))

    assert (kept, rejected) == (True, False)


def test_bounds_are_included():
    """k1 of exactly the bound stays."""
    assert bool(one_token(1.0, metric="k1", lower=1.0, upper=1.0).keep[1])


def test_actions():
    """mask leaves the denominators; zero and clamp keep every token and weigh."""
    mask, zero, clamp = (one_token(1.0, upper=2.0, action=action) for action in ("mask", "zero", "clamp"))

    assert (bool(mask.keep[1]), mask.weights) == (False, None)
    assert (bool(zero.keep[1]), zero.weights[1].item()) == (True, 0.0)
    assert (bool(clamp.keep[1]), clamp.weights[1].item()) == (True, 2.0)
    assert one_token(0.5, upper=2.0, action="clamp").weights[1].item() == pytest.approx(math.exp(0.5))


def test_the_binary_kl_is_finite_for_certain_tokens_and_keeps_equal_ones():
    """Probability 1 on either side; equal log-probabilities."""
    batch = random_batch(0, num_groups=1, group_size=1, max_length=2).with_loss_mask(torch.tensor([False, True]))

    def keeps(old, rollout):
        fields = {"old_logprobs": torch.tensor([0.0, old]), "rollout_logprobs": torch.tensor([0.0, rollout])}
        verdict = RatioBand(RatioBandConfig(metric="binary_kl", upper=0.1))(batch.with_tokens(**fields))
        return bool(verdict.keep[1]), verdict.metrics["ratio_band/dropped_frac"]

    assert keeps(0.0, 0.0) == (True, 0.0)
    assert keeps(-0.3, -0.3) == (True, 0.0)
    assert keeps(0.0, -3.0) == (False, 1.0)
    assert keeps(-3.0, 0.0) == (False, 1.0)


@pytest.mark.parametrize("metric", ["ratio", "k1", "k2", "k3", "k3_rho", "binary_kl"])
@pytest.mark.parametrize("shift", [50.0, -50.0, 1e4, -1e4])
def test_extremes_give_no_nan(metric, shift):
    """A weight or a verdict for every token, however far the two are apart."""
    batch = random_batch(1)
    batch = batch.with_tokens(rollout_logprobs=batch["old_logprobs"] + shift)
    verdict = RatioBand(RatioBandConfig(metric=metric, action="zero"))(batch)

    assert verdict.weights.isfinite().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lower": 2.0, "upper": 1.0}, "upper must be at least lower, 2, found 1"),
        ({"metric": "k3", "action": "clamp"}, "clamp bounds a weight"),
    ],
)
def test_options_that_make_no_sense(options, message):
    """Told in one line."""
    with pytest.raises(ValueError, match=message):
        RatioBandConfig(**options)
