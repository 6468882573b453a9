"""The loss `decoupled_ppo`, and the algorithms `decoupled_ppo` and `a3po`."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.load import load_run_file
from core_rl.errors import ConfigError
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.losses import (
    assert_equals_reference,
    assert_finite,
    assert_same_for_any_split,
    assert_same_in_any_order,
    random_split,
    value_and_gradient,
)
from core_rl_decoupled.config import DecoupledPpoConfig
from core_rl_decoupled.decoupled_ppo import DecoupledPpo


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file).algorithm.options


CASES = [{}, {"cap": None}, {"cap": 1.3, "clip_high": 0.28}, {"cap": 1.3, "beyond": "zero"}]


def make(case):
    return DecoupledPpo(DecoupledPpoConfig(**case))


def reference(case):
    """Equation 5, token by token."""
    config = DecoupledPpoConfig(**case)

    def one(p, prox, mu, a):
        r, w = torch.exp(p - prox), math.exp(prox.item() - mu.item())
        if config.cap is not None and w > config.cap:
            w = config.cap if config.beyond == "clip" else 0.0
        clipped = min(max(r.item(), 1 - config.clip_low), 1 + config.clip_high)
        return -w * (r * a if (r * a).item() <= clipped * a.item() else clipped * a)

    names = ("logprobs", "old_logprobs", "rollout_logprobs", "advantages")
    return lambda row: [one(*token) for token in zip(*(row[name] for name in names), strict=True)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_gradient_are_those_of_the_paper(case):
    """Inside and outside of every bound, both signs of the advantage."""
    assert_equals_reference(make(case), reference(case))


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "prompt-mean"])
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
    """Log-ratios of 50 and 1e4 either way, probability 1, an empty mask."""
    assert_finite(make(case))


def test_a_proximal_policy_that_sampled_makes_it_ppo():
    """pi_prox = mu: weight 1, and at ratio 1 the gradient is -A."""
    batch = in_double(random_batch(1))
    batch = batch.with_tokens(old_logprobs=batch["logprobs"], rollout_logprobs=batch["logprobs"])

    assert torch.allclose(value_and_gradient(make({}), batch)[1], -batch["advantages"].where(batch.loss_mask, 0.0))


def test_algorithms(tmp_path):
    """Recomputed, and log-linear."""
    from core_rl.loops.parts import proximal_mode

    decoupled, a3po = load(tmp_path, "decoupled_ppo"), load(tmp_path, "a3po")

    assert (decoupled.loss.name, a3po.loss.name) == ("decoupled_ppo", "decoupled_ppo")
    assert (proximal_mode(decoupled), proximal_mode(a3po)) == ("recompute", "loglinear")


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (
            "{name: decoupled_ppo, proximal: rollout}",
            r"algorithm\.proximal: rollout makes the proximal policy the one that sampled",
        ),
        ("{name: a3po, rejections: [m2po]}", r"algorithm\.proximal: loglinear knows old log-probabilities only in training"),
        ("{name: decoupled_ppo, loss: {beyond: zero, cap: null}}", r"zero needs a cap"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, algorithm, message):
    """One line each, before anything is loaded."""
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, algorithm)
