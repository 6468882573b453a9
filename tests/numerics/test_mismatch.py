"""Diagnostics of trainer against rollout engine."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
import torch

from core_rl.numerics.mismatch import mismatch_metrics
from core_rl.testing.batches import random_batch

from . import reference


def test_equal_log_probabilities_have_no_mismatch():
    """Distances 0, effective sample size 1, multiplicative error 1."""
    batch = random_batch(0)
    metrics = mismatch_metrics(batch.with_tokens(rollout_logprobs=batch["old_logprobs"]))

    assert metrics.pop("mismatch/ess") == 1.0
    assert metrics.pop("mismatch/mult_prob_error") == 1.0
    assert set(metrics.values()) == {0.0}


@pytest.mark.parametrize("seed", range(3))
def test_the_definitions(seed):
    """Every diagnostic against a loop over tokens and sequences."""
    batch = random_batch(seed)
    triples = zip(
        *(reference.rows(batch[n], batch) for n in ("old_logprobs", "rollout_logprobs")),
        reference.rows(batch.loss_mask, batch),
        strict=True,
    )
    by_sequence = [[p - q for p, q, m in zip(*row, strict=True) if m] for row in triples]
    by_sequence = [row for row in by_sequence if row]
    tokens = reference.flat(by_sequence)
    rho = [math.exp(x) for x in tokens]
    expected = {
        "mismatch/kl": -fmean(tokens),
        "mismatch/k3": fmean(math.exp(x) - x - 1 for x in tokens),
        "mismatch/abs_mean": fmean(map(abs, tokens)),
        "mismatch/abs_max": max(map(abs, tokens)),
        "mismatch/chi2_token": fmean(r * r for r in rho) - 1,
        "mismatch/chi2_seq": fmean(math.exp(2 * sum(row)) for row in by_sequence) - 1,
        "mismatch/ess": fmean(rho) ** 2 / fmean(r * r for r in rho),
        "mismatch/outside_frac": fmean(float(r < 1e-3) for r in rho),
        "mismatch/log_ppl_diff": -fmean(fmean(row) for row in by_sequence),
        "mismatch/mult_prob_error": fmean(math.exp(abs(x)) for x in tokens),
    }

    assert mismatch_metrics(batch) == pytest.approx(expected, rel=1e-6)


def test_which_way_round():
    """A trainer that finds the tokens less likely than the sampler did: kl above 0, perplexity higher."""
    batch = random_batch(1)
    metrics = mismatch_metrics(batch.with_tokens(old_logprobs=(batch["rollout_logprobs"] - 0.5).where(batch.loss_mask, 0.0)))

    assert metrics["mismatch/kl"] == pytest.approx(0.5)
    assert metrics["mismatch/log_ppl_diff"] == pytest.approx(0.5)


def test_outside_the_support():
    """One token in a hundred that the trainer would never sample."""
    batch = random_batch(1)
    place = int(batch.loss_mask.nonzero()[0, 0])
    trained = batch["rollout_logprobs"].clone()
    trained[place] -= 7.0
    metrics = mismatch_metrics(batch.with_tokens(old_logprobs=trained))

    assert metrics["mismatch/outside_frac"] == pytest.approx(1 / int(batch.loss_mask.sum()))


def test_an_empty_mask_says_nothing():
    """No metric is better than a wrong one."""
    batch = random_batch(0)

    assert mismatch_metrics(batch.with_loss_mask(torch.zeros_like(batch.loss_mask))) == {}
