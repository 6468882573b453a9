"""The loss `decoupled_ppo`, and the algorithms `decoupled_ppo` and `a3po`."""

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
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.invariance import gradient
from core_rl.testing.losses import (
    assert_equals_reference,
    assert_finite,
    assert_same_for_any_split,
    assert_same_in_any_order,
    random_split,
    reference_value_and_gradient,
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


CASES = [
    {},
    {"cap": None},
    {"cap": 1.3, "clip_high": 0.28, "beyond": "clip"},
    {"cap": 1.3},
    {"cap": 1.3, "dual_clip": 1.4},
]


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
        loss = -(r * a) if (r * a).item() <= clipped * a.item() else -clipped * a
        if config.dual_clip is not None and a.item() < 0:
            loss = min(loss, -config.dual_clip * a)
        return w * loss

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


def one_token(ratio, weight, advantage, **options):
    """(value, gradient) at pi/pi_prox = ratio and pi_prox/mu = weight."""
    batch = random_batch(0, num_groups=1, group_size=1, max_length=2).with_loss_mask(torch.tensor([False, True]))
    policies = {"logprobs": math.log(ratio) - 2, "old_logprobs": -2.0, "rollout_logprobs": -2 - math.log(weight)}
    fields = {name: torch.tensor([0.0, value]).double() for name, value in policies.items()}
    batch = batch.with_tokens(advantages=torch.tensor([0.0, advantage]).double(), **fields)
    value, gradient = value_and_gradient(make(options), batch)
    return value[1].item(), gradient[1].item()


@pytest.mark.parametrize(
    ("token", "options", "expected"),
    [
        ((1.0, 1.0, 2.0), {}, (-2.0, -2.0)),
        ((1.1, 3.0, 2.0), {}, (-6.6, -6.6)),  # w r = pi/mu
        ((1.5, 3.0, 2.0), {}, (-7.2, 0.0)),  # the clip's 1.2 is of pi/pi_prox, whatever w is
        ((1.5, 3.0, -2.0), {}, (9.0, 9.0)),
        ((0.5, 3.0, -2.0), {}, (4.8, 0.0)),
        ((1.1, 6.0, 2.0), {}, (0.0, 0.0)),  # beyond the cap of 5: nothing
        ((1.1, 6.0, 2.0), {"beyond": "clip"}, (-11.0, -11.0)),
        ((1.1, 6.0, 2.0), {"cap": None}, (-13.2, -13.2)),
        ((4.0, 2.0, -1.0), {"dual_clip": 3.0}, (6.0, 0.0)),
    ],
)
def test_by_hand(token, options, expected):
    """Closed forms of one token, of its ratio, weight and advantage."""
    assert one_token(*token, **options) == pytest.approx(expected)


def test_a_weight_of_zero_keeps_the_denominators():
    """The other tokens' gradients are what they are without a cap."""
    batch = random_batch(3, num_groups=4)
    capped, free = (
        gradient(PolicyObjective(make({"cap": cap}), kl=KlConfig()), Aggregator("token-mean"), batch) for cap in (1.0, None)
    )
    beyond = (batch["old_logprobs"] > batch["rollout_logprobs"]) & batch.loss_mask

    assert not capped.logprobs[beyond].any()
    assert torch.equal(capped.logprobs[~beyond], free.logprobs[~beyond])
    assert capped.metrics["behaviour/capped_frac"] == pytest.approx(float(beyond.sum() / batch.loss_mask.sum()))


@pytest.mark.parametrize("proximal", ["recompute", "reuse", "loglinear"])
def test_the_proximal_policy_is_what_the_algorithm_says(proximal):
    """Of the batch; of this forward, so that r is 1 and w is pi/mu; or between the two, by the age of a token."""
    batch = in_double(random_batch(5)).with_tokens(proximal_alpha=torch.rand(random_batch(5).num_tokens).double())
    mode = "batch" if proximal == "recompute" else proximal
    found = gradient(PolicyObjective(make({"cap": None}), kl=KlConfig(), proximal=mode), Aggregator("token-sum"), batch)
    pi, mu = batch["logprobs"], batch["rollout_logprobs"]
    prox = {"recompute": batch["old_logprobs"], "reuse": pi, "loglinear": mu + batch["proximal_alpha"] * (pi - mu)}[proximal]
    expected = reference_value_and_gradient(reference({"cap": None}), batch.with_tokens(old_logprobs=prox))[1]

    assert torch.allclose(found.logprobs, expected * batch["weights"])


def test_a_fresh_token_needs_no_proximal_policy():
    """alpha 0: pi_prox is mu, so that w is 1 and the clip acts on pi/mu. This is PPO for tokens of the newest weights."""
    batch = in_double(random_batch(5))
    batch = batch.with_tokens(proximal_alpha=torch.zeros(batch.num_tokens).double())
    found = gradient(PolicyObjective(make({}), kl=KlConfig(), proximal="loglinear"), Aggregator("token-sum"), batch)
    rollout = batch.with_tokens(old_logprobs=batch["rollout_logprobs"])

    assert found.metrics["behaviour/weight"] == pytest.approx(1.0)
    assert torch.allclose(found.logprobs, value_and_gradient(make({}), rollout)[1] * batch["weights"])


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
    assert (decoupled.loss.options.cap, decoupled.loss.options.beyond, decoupled.loss.options.dual_clip) == (5.0, "zero", None)


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (
            "{name: decoupled_ppo, proximal: rollout}",
            r"algorithm\.proximal: rollout makes the proximal policy the one that sampled",
        ),
        ("{name: a3po, rejections: [m2po]}", r"algorithm\.proximal: loglinear knows old log-probabilities only in training"),
        ("{name: decoupled_ppo, loss: {beyond: clip, cap: null}}", r"clip needs a cap"),
        ("{name: decoupled_ppo, loss: {dual_clip: 1.0}}", r"dual_clip"),
        ("{name: decoupled_ppo, rejections: [tis]}", r"algorithm\.rejections\.0: .*the weights of tis would count it twice"),
        (
            "{name: a3po, rejections: [truncated, {name: ratio_band, action: clamp}]}",
            r"algorithm\.rejections\.1: .*the weights of ratio_band would count it twice",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, algorithm, message):
    """One line each, before anything is loaded."""
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, algorithm)
