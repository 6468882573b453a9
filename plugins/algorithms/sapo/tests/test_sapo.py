"""The loss and the algorithm `sapo`."""

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
from core_rl_sapo.config import SapoConfig
from core_rl_sapo.sapo import Sapo


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file).algorithm.options


LOSSES = [{}, {"tau_positive": 2.0, "tau_negative": 0.5}]


def make(options):
    return Sapo(SapoConfig(**options))


def reference(options):
    """Equations 5 and 6, token by token."""
    config = SapoConfig(**options)

    def losses(row):
        values = []
        for p, q, a in zip(row["logprobs"], row["old_logprobs"], row["advantages"], strict=True):
            tau = config.tau_positive if a.item() > 0 else config.tau_negative
            r = torch.exp(p) / torch.exp(q)
            values.append(-(4 / tau) / (1 + torch.exp(-tau * (r - 1))) * a)
        return values

    return losses


@pytest.mark.parametrize("options", LOSSES, ids=str)
def test_value_and_gradient_are_those_of_the_paper(options):
    """Both signs of the advantage, ratios on both sides of 1."""
    assert_equals_reference(make(options), reference(options))


def test_at_ratio_one_the_gradient_is_that_of_reinforce():
    """-A for any sharpness: the gate's slope is 1/4 there."""
    batch = in_double(random_batch(1))
    batch = batch.with_tokens(old_logprobs=batch["logprobs"])
    _, grad = value_and_gradient(make({"tau_positive": 3.0, "tau_negative": 0.7}), batch)

    assert torch.allclose(grad, -batch["advantages"].where(batch.loss_mask, 0.0))


def test_the_gate_shuts_far_away():
    """At a ratio of e^4 with tau 1.05 nothing is left of the gradient."""
    batch = in_double(random_batch(1))
    batch = batch.with_tokens(old_logprobs=batch["logprobs"] - 4.0, advantages=-torch.ones(batch.num_tokens).double())
    _, grad = value_and_gradient(make({}), batch)

    assert grad.abs().max() < 4 * 1.05 * math.exp(4) * math.exp(-1.05 * (math.exp(4) - 1))


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm", "prompt-mean"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@given(seed=st.integers(0, 500), ranks=st.sampled_from([1, 2, 4]), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=12)
def test_the_gradient_does_not_depend_on_how_a_batch_is_cut_up(loss, aggregation, seed, ranks, random):
    """Any ranks, micro-batches and order of packing."""
    count = random_batch(seed).num_sequences
    order = random.sample(range(count), count)

    assert_same_for_any_split(make(loss), seed, random_split(random, count, ranks), aggregation=aggregation)
    assert_same_in_any_order(make(loss), seed, order, aggregation=aggregation)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_extremes_stay_finite(loss):
    """Log-ratios of 50 and 1e4 either way, probability 1, an empty mask, one sequence."""
    assert_finite(make(loss))


def test_the_algorithm(tmp_path):
    """The paper's temperatures; a mean of means."""
    options = load(tmp_path, "sapo")

    assert (options.loss.name, options.aggregation.name) == ("sapo", "seq-mean-token-mean")
    assert (options.loss.options.tau_positive, options.loss.options.tau_negative) == (1.0, 1.05)
