"""Clip-Cov and KL-Cov."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.load import load_run_file
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.losses import (
    assert_equals_reference,
    assert_finite,
    assert_same_for_any_split,
    assert_same_in_any_order,
    random_split,
    value_and_gradient,
)
from core_rl_cov._covariance import covariance, drawn, share_of
from core_rl_cov.clip_cov import ClipCov
from core_rl_cov.config import ClipCovConfig, KlCovConfig
from core_rl_cov.kl_cov import KlCov


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file).algorithm.options


KINDS = {"clip_cov": (ClipCov, ClipCovConfig), "kl_cov": (KlCov, KlCovConfig)}
CASES = [
    ("clip_cov", {"ratio": 0.2, "cov_low": -0.5, "cov_high": 0.5}),
    ("clip_cov", {"ratio": 0.9, "cov_low": 0.1, "cov_high": 9.0, "clip_high": 0.3}),
    ("kl_cov", {"ratio": 0.3}),
    ("kl_cov", {"ratio": 1.0, "coef": 0.1}),
]


def make(case):
    loss, config = KINDS[case[0]]
    return loss(config(**case[1]))


def reference(case):
    """Token by token, given which tokens were chosen."""
    name, options = case
    config = KINDS[name][1](**options)

    def one(p, q, a, chosen):
        r = torch.exp(p - q)
        if name == "kl_cov":
            return -r * a + (config.coef * (p - q).abs() if chosen else 0.0)
        if chosen:
            return 0 * p
        clipped = min(max(r.item(), 1 - config.clip_low), 1 + config.clip_high)
        return -r * a if (r * a).item() <= clipped * a.item() else -clipped * a + 0 * p

    names = ("logprobs", "old_logprobs", "advantages", name)
    return lambda row: [one(*token) for token in zip(*(row[field] for field in names), strict=True)]


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm", "prompt-mean"])
@pytest.mark.parametrize("case", CASES, ids=str)
@given(seed=st.integers(0, 500), ranks=st.sampled_from([1, 2, 4]), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=8)
def test_the_gradient_does_not_depend_on_how_a_batch_is_cut_up(case, aggregation, seed, ranks, random):
    """Any ranks, micro-batches and order of packing."""
    count = random_batch(seed).num_sequences
    order = random.sample(range(count), count)

    assert_same_for_any_split(make(case), seed, random_split(random, count, ranks), aggregation=aggregation)
    assert_same_in_any_order(make(case), seed, order, aggregation=aggregation)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_extremes_stay_finite(case):
    """Log-ratios of 50 and 1e4 either way, probability 1, an empty mask, one sequence."""
    assert_finite(make(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_gradient_are_those_of_the_paper(case):
    """Inside and outside of every bound, both signs of the advantage."""
    assert_equals_reference(make(case), reference(case))


def test_the_covariance_is_that_of_the_definition():
    """Against a loop over the tokens in the mask."""
    batch = in_double(random_batch(3))
    where = batch.loss_mask.nonzero()[:, 0].tolist()
    a, x = ([batch[name][t].item() for t in where] for name in ("advantages", "old_logprobs"))
    expected = [(one - sum(a) / len(a)) * (two - sum(x) / len(x)) for one, two in zip(a, x, strict=True)]

    assert covariance(batch)[where].tolist() == pytest.approx(expected)


def test_kl_cov_takes_the_largest():
    """As many as the share says, and none outside has a larger covariance."""
    batch = make(("kl_cov", {"ratio": 0.25})).before_step(random_batch(4, num_groups=6))
    chosen, cov = batch["kl_cov"], covariance(batch)

    assert int(chosen.sum()) == share_of(batch, 0.25) == int(batch.loss_mask.sum()) // 4
    assert cov[chosen].min() >= cov[batch.loss_mask & ~chosen].max()


def test_clip_cov_draws_from_its_band():
    """Never outside, as many as the share says or as there are, and at least one."""
    batch = random_batch(4, num_groups=6)
    few = make(("clip_cov", {"ratio": 1e-4, "cov_low": -0.2, "cov_high": 0.2})).before_step(batch)["clip_cov"]
    all_of_them = make(("clip_cov", {"ratio": 1.0, "cov_low": -0.2, "cov_high": 0.2})).before_step(batch)["clip_cov"]
    cov = covariance(batch)
    inside = (cov > -0.2) & (cov < 0.2)

    assert int(few.sum()) == 1
    assert torch.equal(all_of_them, inside)
    assert not (few & ~inside).any()


def test_samples_that_begin_alike_are_drawn_apart():
    """Forty samples that differ from the second token on: ten first tokens, the same ten in any order of packing."""
    batch = random_batch(0, num_groups=40, group_size=1).select([0] * 40)
    first = batch.positions == 1
    random = torch.Generator().manual_seed(0)
    old = (-torch.rand(batch.num_tokens, generator=random)).masked_fill(first, -0.7)
    batch = batch.with_loss_mask(batch.positions > 0).with_tokens(old_logprobs=old, advantages=torch.ones(batch.num_tokens))
    chosen = drawn(batch, first, 10)

    order = [7 * s % 40 for s in range(40)]
    packed = drawn(batch.select(order), first[batch.token_indices(order)], 10)

    assert int(chosen.sum()) == 10
    assert not chosen[~first].any()
    assert torch.equal(packed, chosen[batch.token_indices(order)])


def test_the_draw_is_even():
    """A fifth of two thousand tokens: of any tenth of the batch, between an eighth and four fifteenths."""
    batch = random_batch(1, num_groups=400, group_size=2)
    chosen = drawn(batch, batch.loss_mask, int(batch.loss_mask.sum()) // 5)[batch.loss_mask].float()

    assert all(0.125 < tenth.mean() < 0.267 for tenth in chosen.chunk(10))


@pytest.mark.parametrize("shift", [0.5, -0.5])
def test_the_dead_regions_of_clip_cov(shift):
    """A token out of PPO's bounds on its way further has no gradient, nor has a drawn one; all others have -r A."""
    batch = in_double(random_batch(2, num_groups=6))
    batch = batch.with_tokens(old_logprobs=batch["logprobs"] - shift)
    loss = make(("clip_cov", {"ratio": 0.2, "cov_low": -9.0, "cov_high": 9.0}))
    gone = loss.before_step(batch)["clip_cov"] | (batch["advantages"] * shift > 0) | ~batch.loss_mask
    _, grad = value_and_gradient(loss, batch)

    assert not grad[gone].any()
    assert torch.allclose(grad[~gone], -math.exp(shift) * batch["advantages"][~gone])


def test_kl_cov_pulls_back_from_either_side():
    """At the old policy it is REINFORCE; beyond it a chosen token has coef · sign(x) on top of -r A, and no other token has."""
    batch = in_double(random_batch(2, num_groups=6))
    loss = make(("kl_cov", {"ratio": 0.3, "coef": 0.7}))
    for shift in (0.0, 0.4, -0.4):
        here = batch.with_tokens(old_logprobs=batch["logprobs"] - shift)
        sign = math.copysign(1.0, shift) if shift else 0.0
        expected = -math.exp(shift) * batch["advantages"] + 0.7 * sign * loss.before_step(here)["kl_cov"]

        assert torch.allclose(value_and_gradient(loss, here)[1], expected.where(batch.loss_mask, 0.0))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_empty_mask_chooses_nothing(case):
    """Nor does it fail: a step whose tokens have all been rejected."""
    batch = random_batch(0)
    prepared = make(case).before_step(batch.with_loss_mask(torch.zeros_like(batch.loss_mask)))

    assert not prepared[case[0]].any()


@pytest.mark.parametrize("name", ["clip_cov", "kl_cov"])
def test_algorithms(tmp_path, name):
    """The paper's share; token mean; the old policy is known before training."""
    from core_rl.loops.parts import proximal_mode

    options = load(tmp_path, name)

    assert (options.loss.name, options.loss.options.ratio, options.aggregation.name) == (name, 2e-4, "token-mean")
    assert proximal_mode(options) == "recompute"


def test_the_band_is_in_order():
    """cov_high under cov_low is told."""
    with pytest.raises(ValueError, match="must be above cov_low, 5, found 1"):
        ClipCovConfig(cov_low=5.0, cov_high=1.0)
