"""Clip-Cov and KL-Cov."""

from __future__ import annotations

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
)
from core_rl_cov._covariance import covariance, share_of
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
