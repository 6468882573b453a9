"""Coefficients that follow what they act on, by hand."""

from __future__ import annotations

import attrs
import pytest
import torch

from core_rl.config.algorithm import AlgorithmConfig, KlConfig
from core_rl.config.selection import select
from core_rl.loops.online import Position, _position, _restore
from core_rl.loops.steering import adapted_entropy_coef, adapted_kl_coef, steer
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective import PolicyObjective
from core_rl.roles.train import LossOutput
from core_rl.testing.batches import random_batch
from core_rl.testing.invariance import gradient


@pytest.mark.parametrize(
    ("kl", "expected"),
    [
        (0.1, 0.5),  # on the target
        (0.11, 0.5 * (1 + 0.1 * 0.05)),  # a tenth above: 10 % of n / horizon
        (0.2, 0.5 * (1 + 0.2 * 0.05)),  # twice the target: bounded at 20 %
        (50.0, 0.5 * (1 + 0.2 * 0.05)),
        (0.09, 0.5 * (1 - 0.1 * 0.05)),
        (0.0, 0.5 * (1 - 0.2 * 0.05)),
        (-1.0, 0.5 * (1 - 0.2 * 0.05)),
    ],
)
def test_the_kl_controller_by_hand(kl, expected):
    """Coefficient 0.5, target 0.1, 500 sequences of a horizon of 10000: n / horizon is 0.05."""
    assert adapted_kl_coef(0.5, kl, target=0.1, sequences=500, horizon=10000.0) == pytest.approx(expected, rel=1e-12)


def test_a_horizon_of_sequences_at_twice_the_target_adds_a_fifth():
    """As the help says; in one step of the whole horizon, and compounded a little more in ten."""
    coef = 1.0
    for _ in range(10):
        coef = adapted_kl_coef(coef, 1.0, target=0.1, sequences=1000, horizon=10000.0)

    assert adapted_kl_coef(1.0, 1.0, target=0.1, sequences=10000, horizon=10000.0) == pytest.approx(1.2)
    assert coef == pytest.approx(1.02**10)


@pytest.mark.parametrize(
    ("coef", "entropy", "expected"),
    [(0.01, 0.1, 0.015), (0.01, 0.2, 0.005), (0.01, 0.3, 0.005), (0.002, 0.3, 0.0), (0.0, 0.3, 0.0), (0.0, 0.1, 0.005)],
)
def test_the_entropy_controller_by_hand(coef, entropy, expected):
    """Target 0.2, step 0.005: up below, down at and above, never under 0."""
    assert adapted_entropy_coef(coef, entropy, target=0.2, step=0.005) == pytest.approx(expected, abs=1e-15)


def reinforce(logprobs, batch):
    return LossOutput(values=-batch["advantages"] * logprobs, metrics={})


def algorithm(**changes):
    base = AlgorithmConfig(advantage=select("advantage", "x"), loss=select("loss", "x"))
    return attrs.evolve(base, **changes)


def objective(config):
    return PolicyObjective(reinforce, kl=config.kl, entropy_coef=config.entropy_coef, entropy_target=config.entropy_target)


def test_a_step_steers_the_next_one():
    """Both coefficients, from the metrics of the step."""
    config = algorithm(kl=KlConfig(coef=0.1, target=0.05, horizon=100.0), entropy_target=0.2, entropy_coef=0.01)
    steered = objective(config)
    steer(steered, config, {"kl/ref": 0.055, "entropy/mean": 0.1}, sequences=10)

    assert steered.kl_coef == pytest.approx(0.1 * (1 + 0.1 * 0.1))
    assert steered.entropy_coef == pytest.approx(0.015)
    assert steered.entropy_acts


@pytest.mark.parametrize("metrics", [{}, {"kl/ref": 9.0, "entropy/mean": 9.0}])
def test_what_has_no_target_or_was_not_measured_stays(metrics):
    """Fixed coefficients; and a step of the critic alone, which measures nothing of the policy."""
    fixed = algorithm(kl=KlConfig(coef=0.1), entropy_coef=0.01)
    config = algorithm(kl=KlConfig(coef=0.1, target=0.05), entropy_coef=0.01, entropy_target=0.2) if not metrics else fixed
    steered = objective(config)
    steer(steered, config, metrics, sequences=10)

    assert (steered.kl_coef, steered.entropy_coef, steered.entropy_acts) == (0.1, 0.01, True)


@pytest.mark.parametrize(("entropy", "acts"), [(0.1, True), (0.2, True), (0.3, False)])
def test_the_bonus_acts_only_up_to_the_target(entropy, acts):
    """By the mean of the batch: then every token has it, those of high entropy too; else none."""
    config = algorithm(entropy_target=0.2, entropy_coef=0.5, entropy_step=0.25)
    steered = objective(config)
    steer(steered, config, {"entropy/mean": entropy}, sequences=10)
    batch = random_batch(0)
    found = gradient(steered, Aggregator("token-sum"), batch)
    coef = 0.75 if entropy < 0.2 else 0.25

    assert steered.entropy_coef == coef
    assert steered.entropy_acts is acts
    assert torch.equal(found.entropy, torch.zeros(batch.num_tokens).masked_fill(batch.loss_mask, -coef if acts else 0.0))


def test_a_checkpoint_keeps_what_was_steered():
    """And a new run begins with the configuration's own."""

    class Feed:
        position = 7

    config = algorithm(kl=KlConfig(coef=0.1, target=0.05), entropy_target=0.2, entropy_coef=0.01)
    steered, resumed, fresh = objective(config), objective(config), objective(config)
    steer(steered, config, {"kl/ref": 1.0, "entropy/mean": 1.0}, sequences=1000)
    _restore(resumed, Position(**attrs.asdict(_position(steered, Feed(), 3))))
    _restore(fresh, Position())

    assert (resumed.kl_coef, resumed.entropy_coef, resumed.entropy_acts) == (steered.kl_coef, 0.005, False)
    assert resumed.kl_coef == pytest.approx(0.102)
    assert (fresh.kl_coef, fresh.entropy_coef, fresh.entropy_acts) == (0.1, 0.01, True)
