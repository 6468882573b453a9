"""The rejection and the algorithm `m2po`."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.algorithm import KlConfig
from core_rl.config.load import load_run_file
from core_rl.errors import ConfigError
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective import PolicyObjective
from core_rl.plugins.build import build
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.invariance import gradient
from core_rl_m2po.config import M2poConfig
from core_rl_m2po.m2po import M2po


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file).algorithm.options


def naive(squares, threshold):
    """Which are kept: drop the largest one by one until the mean of the rest is under the bound, or one is left."""
    left = sorted(range(len(squares)), key=lambda i: squares[i])
    while len(left) > 1 and sum(squares[i] for i in left) / len(left) >= threshold:
        left.pop()
    return set(left)


@given(seed=st.integers(0, 500), spread=st.sampled_from([0.05, 0.2, 1.0]), threshold=st.sampled_from([1e-6, 0.01, 0.04, 1.0]))
@settings(deadline=None, max_examples=50)
def test_it_is_the_papers_rule(seed, spread, threshold):
    """Against dropping one token after the other."""
    batch = random_batch(seed, spread=spread)
    where = batch.loss_mask.nonzero()[:, 0].tolist()
    squares = [(batch["rollout_logprobs"][t] - batch["old_logprobs"][t]).double().item() ** 2 for t in where]
    masked, zeroed = (M2po(M2poConfig(threshold=threshold, action=action))(batch) for action in ("mask", "zero"))
    kept = {i for i, t in enumerate(where) if masked.keep[t]}

    assert kept == naive(squares, threshold)
    assert masked.weights is None
    assert zeroed.keep.all()
    assert torch.equal(zeroed.weights, masked.keep.float())
    assert masked.metrics == zeroed.metrics


def test_exactly_one_token_is_left_where_none_is_near_enough():
    """And it is the nearest."""
    batch = random_batch(0)
    verdict = M2po(M2poConfig(threshold=1e-12, action="mask"))(batch)
    distances = (batch["rollout_logprobs"] - batch["old_logprobs"]).abs().where(batch.loss_mask, torch.inf)

    assert int((verdict.keep & batch.loss_mask).sum()) == 1
    assert bool(verdict.keep[distances.argmin()])


def test_equal_policies_lose_nothing_and_an_empty_mask_is_no_error():
    """d = 0 everywhere; no token at all."""
    batch = random_batch(0)
    same = M2po(M2poConfig())(batch.with_tokens(rollout_logprobs=batch["old_logprobs"]))
    empty = M2po(M2poConfig())(batch.with_loss_mask(torch.zeros_like(batch.loss_mask)))

    assert same.weights.all()
    assert same.metrics["m2po/dropped_frac"] == 0.0
    assert empty.keep.all()


def test_the_algorithm(tmp_path):
    """The paper's threshold, no clip, and the old policy known before training."""
    from core_rl.loops.parts import proximal_mode

    options = load(tmp_path, "m2po")

    assert [(one.name, one.options.threshold) for one in options.rejections] == [("m2po", 0.04)]
    assert (options.loss.name, options.aggregation.name, options.kl.coef) == ("decoupled_ppo", "token-mean", 0.0)
    assert (options.loss.options.clip_low, options.loss.options.clip_high, options.loss.options.cap) == (1.0, 1e6, None)
    assert proximal_mode(options) == "recompute"


def test_the_objective_is_the_papers(tmp_path):
    """1/(sum of lengths) sum M pi/mu A, by value and gradient: no clip acts, and what M takes away stays in the denominator."""
    batch = in_double(random_batch(1, num_groups=5, spread=0.4))
    batch = batch.with_tokens(weights=M2po(M2poConfig())(batch).weights.double())
    found = gradient(PolicyObjective(build(load(tmp_path, "m2po").loss), kl=KlConfig()), Aggregator("token-mean"), batch)
    rows = zip(*(batch[n].tolist() for n in ("logprobs", "rollout_logprobs", "advantages", "weights")), strict=True)
    count = int(batch.loss_mask.sum())
    terms = [-m * math.exp(p - mu) * a / count for p, mu, a, m in rows]

    assert 0 < float(batch["weights"][batch.loss_mask].sum()) < count
    assert found.logprobs.tolist() == pytest.approx(terms, rel=1e-6, abs=1e-12)
    assert found.loss == pytest.approx(sum(terms), rel=1e-6)


@pytest.mark.parametrize("shift", [50.0, -50.0, 1e4, -1e4])
def test_extremes(shift):
    """Log-ratios this large: finite metrics, one token left."""
    batch = random_batch(1)
    verdict = M2po(M2poConfig())(batch.with_tokens(rollout_logprobs=batch["old_logprobs"] + shift))

    assert int(verdict.weights[batch.loss_mask].sum()) == 1
    assert all(math.isfinite(value) for value in verdict.metrics.values())


def test_the_order_of_packing_decides_nothing():
    """The same tokens are held back, wherever they stand."""
    batch = random_batch(2, num_groups=5)
    order = list(reversed(range(batch.num_sequences)))
    weights, turned = M2po(M2poConfig())(batch).weights, M2po(M2poConfig())(batch.select(order)).weights

    assert torch.equal(turned, weights[batch.token_indices(order)])


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (
            "{name: m2po, proximal: rollout}",
            r"algorithm\.proximal: rollout makes the old policy the one that sampled, so that m2po",
        ),
        ("{name: grpo, proximal: rollout, rejections: [m2po]}", r"algorithm\.proximal: .*m2po finds every log-ratio to be 0"),
        ("{name: m2po, proximal: reuse}", r"algorithm\.proximal: reuse knows old log-probabilities only in training"),
        ("{name: m2po, rejections: [m2po, tis]}", r"algorithm\.rejections\.1: .*the weights of tis would count it twice"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, algorithm, message):
    """One line each, before anything is loaded."""
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, algorithm)


def test_a_threshold_is_above_zero():
    """With 0 nothing could be left."""
    with pytest.raises(ValueError, match="threshold"):
        M2poConfig(threshold=0.0)
