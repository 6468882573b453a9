"""verl's rejection strings, each as the `ratio_band` that the README names for it, against verl's rule written out."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.testing.batches import in_double, random_batch
from core_rl_rejections.config import RatioBandConfig
from core_rl_rejections.ratio_band import RatioBand

SEQUENCE = {"level": "sequence"}
CASES = {
    ("token_k1", "0.5_5.0"): {"lower": 1 / 5.0, "upper": 1 / 0.5},
    ("token_k1", "2.0"): {"lower": 0.5, "upper": 2.0},
    ("token_k2", "0.1"): {"metric": "k2", "upper": 0.1},
    ("token_k3", "0.05"): {"metric": "k3_rho", "upper": 0.05},
    ("seq_sum_k1", "0.5_3.0"): {**SEQUENCE, "aggregate": "sum", "lower": 1 / 3.0, "upper": 2.0},
    ("seq_sum_k3", "0.4"): {**SEQUENCE, "metric": "k3_rho", "aggregate": "sum", "upper": 0.4},
    ("seq_mean_k1", "0.8_1.1"): {**SEQUENCE, "aggregate": "mean", "lower": 1 / 1.1, "upper": 1 / 0.8},
    ("seq_mean_k2", "0.1"): {**SEQUENCE, "metric": "k2", "aggregate": "mean", "upper": 0.1},
    ("seq_mean_k3", "0.1"): {**SEQUENCE, "metric": "k3_rho", "aggregate": "mean", "upper": 0.1},
    ("seq_max_k2", "0.3"): {**SEQUENCE, "metric": "k2", "aggregate": "max", "upper": 0.3},
    ("seq_max_k3", "0.3"): {**SEQUENCE, "metric": "k3_rho", "aggregate": "max", "upper": 0.3},
}


def verls(rule, threshold, batch):
    """[tokens in the mask]: k1 = -log rho between the logarithms of the bounds; k2 and k3 up to their bound."""
    *level, name = rule.split("_")
    low, high = -math.inf, float(threshold.split("_")[-1])
    if name == "k1":
        first = threshold.split("_")[0]
        low, high = math.log(float(first) if "_" in threshold else 1 / high), math.log(high)
    estimate = {"k1": lambda x: -x, "k2": lambda x: x * x / 2, "k3": lambda x: math.exp(x) - 1 - x}[name]
    kept = []
    for start, end in pairwise(batch.cu_seqlens.tolist()):
        where = [t for t in range(start, end) if batch.loss_mask[t]]
        values = [estimate((batch["old_logprobs"][t] - batch["rollout_logprobs"][t]).item()) for t in where]
        if level[0] == "seq" and values:
            whole = {"sum": sum(values), "mean": sum(values) / len(values), "max": max(values)}[level[1]]
            values = [whole] * len(values)
        kept += [low <= value <= high for value in values]
    return kept


@pytest.mark.parametrize(("rule", "options"), CASES.items(), ids=lambda x: "_".join(x) if isinstance(x, tuple) else "")
@given(seed=st.integers(0, 500))
@settings(deadline=None, max_examples=15)
def test_the_same_tokens_are_kept(rule, options, seed):
    """With verl's k1 the bounds turn round: they act on mu/pi_old."""
    batch = in_double(random_batch(seed, num_groups=4))
    keep = RatioBand(RatioBandConfig(**options))(batch).keep

    assert keep[batch.loss_mask].tolist() == verls(*rule, batch)


def test_both_signs_are_seen():
    """Each rule keeps some and drops some, so that the comparison says something."""
    batch = in_double(random_batch(7, num_groups=30))

    assert all(0 < sum(verls(*rule, batch)) < int(batch.loss_mask.sum()) for rule in CASES)
