"""What a critic minimises: value, gradient, clip, Huber, and the two places where it stands."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.algorithm import CriticConfig, KlConfig
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective import PolicyObjective
from core_rl.objective_extras import ExtraLoss
from core_rl.objective_value import ValueLoss, ValueObjective
from core_rl.roles.train import LossOutput
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.invariance import gradient

OPTIONS = [{"clip": None}, {}, {"clip": 0.5, "huber_delta": 0.3}, {"clip": None, "huber_delta": 1.0}, {"clip": 1e-3}]


def reference(value, old, target, clip, delta):
    """(loss, derivative by the value) of one token, from the two errors."""

    def error(prediction):
        e = prediction - target
        if delta is not None and abs(e) > delta:
            return delta * (abs(e) - delta / 2), math.copysign(delta, e)
        return e * e / 2, e

    free = error(value)
    if clip is None:
        return free
    bounded = min(max(value, old - clip), old + clip)
    held = error(bounded)[0], error(bounded)[1] if bounded == value else 0.0
    return held if held[0] > free[0] else free


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_are_those_of_the_definition(options, seed):
    """Values inside and outside of the clip, on both sides of the return."""
    batch = in_double(random_batch(seed, num_groups=6))
    config = CriticConfig(**options)
    fresh = batch["new_values"].clone().requires_grad_()
    values = ValueLoss(config)(batch["logprobs"], batch.with_tokens(new_values=fresh)).values
    values.sum().backward()
    triples = zip(*(batch[name].tolist() for name in ("new_values", "values", "returns")), strict=True)
    expected = [reference(*triple, config.clip, config.huber_delta) for triple in triples]

    assert values.tolist() == pytest.approx([value for value, _ in expected], rel=1e-12)
    assert fresh.grad.tolist() == pytest.approx([slope for _, slope in expected], rel=1e-12, abs=1e-15)


def one(value, old, target, **options):
    """Loss and gradient of a single token."""
    batch = random_batch(0, num_groups=1, group_size=1, max_length=2).with_loss_mask(torch.tensor([False, True]))
    batch = batch.with_tokens(values=torch.tensor([0.0, old]), returns=torch.tensor([0.0, target]))
    fresh = torch.tensor([0.0, value], requires_grad=True)
    output = ValueLoss(CriticConfig(**options))(fresh, batch.with_tokens(new_values=fresh))
    output.values.sum().backward()
    return output.values[1].item(), fresh.grad[1].item(), float(output.metrics["critic/clip_frac"][0])


@pytest.mark.parametrize(
    ("value", "old", "target", "options", "expected"),
    [
        (1.0, 1.0, 3.0, {"clip": 0.25}, (2.0, -2.0, 0)),  # has not moved: its own error
        (2.0, 1.0, 3.0, {"clip": 0.25}, (1.53125, 0.0, 1)),  # moved beyond the clip towards the return: held at 1.25
        (0.0, 1.0, 3.0, {"clip": 0.25}, (4.5, -3.0, 0)),  # moved away: its own error is the larger, and pulls it back
        (2.0, 1.0, 3.0, {"clip": None}, (0.5, -1.0, 0)),
        (0.0, 0.0, 4.0, {"clip": None, "huber_delta": 0.5}, (1.875, -0.5, 0)),
        (3.75, 3.75, 4.0, {"clip": None, "huber_delta": 0.5}, (0.03125, -0.25, 0)),
        (3.0, 3.0, 3.0, {}, (0.0, 0.0, 0)),
    ],
)
def test_by_hand(value, old, target, options, expected):
    """Squares over two, the clip of the baselines, Huber beyond delta."""
    assert one(value, old, target, **options) == expected


@pytest.mark.parametrize("delta", [None, 1.0])
@pytest.mark.parametrize("value", [1e6, -1e6])
def test_extreme_errors_stay_finite(value, delta):
    """In float32; Huber bounds the gradient."""
    loss, slope, _ = one(value, value, 0.0, huber_delta=delta)

    assert math.isfinite(loss)
    assert slope == (value if delta is None else math.copysign(1.0, value))


def test_metrics_are_means_over_the_mask():
    """Against loops."""
    batch = random_batch(4, num_groups=5)
    metrics = gradient(ValueObjective(CriticConfig(clip=0.1)), Aggregator("token-mean"), batch).metrics
    columns = [batch[name].tolist() for name in ("new_values", "values", "returns")]
    tokens = [row for *row, m in zip(*columns, batch.loss_mask.tolist(), strict=True) if m]
    pairs = [(reference(v, old, r, 0.1, None)[0], reference(v, old, r, None, None)[0]) for v, old, r in tokens]
    expected = {
        "critic/loss": sum(loss for loss, _ in pairs) / len(pairs),
        "critic/clip_frac": sum(loss > free for loss, free in pairs) / len(pairs),
        "critic/value_mean": sum(v for v, _, _ in tokens) / len(tokens),
        "critic/return_mean": sum(r for _, _, r in tokens) / len(tokens),
        "critic/error_abs": sum(abs(v - r) for v, _, r in tokens) / len(tokens),
    }

    assert metrics == pytest.approx(expected, rel=1e-5, abs=1e-6)


def still(logprobs, batch):
    """A policy loss that says nothing."""
    del batch
    return LossOutput(values=torch.zeros_like(logprobs), metrics={})


@pytest.mark.parametrize("name", ["token-mean", "seq-mean-token-mean"])
def test_on_a_shared_trunk_it_is_the_same_loss_times_its_coefficient(name):
    """Averaged over tokens whatever the policy's aggregation, and none of the policy's rollout weights in it."""
    batch = random_batch(1, num_groups=5)
    config = CriticConfig(shared=True, coef=0.5)
    extra = ExtraLoss(name="value", loss=ValueLoss(config), weight=config.coef, aggregation=Aggregator("token-mean"))
    shared = gradient(PolicyObjective(still, kl=KlConfig(), extras=[extra]), Aggregator(name), batch)
    alone = gradient(ValueObjective(config), Aggregator("token-mean"), batch)

    assert shared.loss == pytest.approx(0.5 * alone.loss, rel=1e-6)
    assert torch.allclose(shared.others["new_values"], 0.5 * alone.others["new_values"], rtol=1e-6, atol=0)
    assert (shared.logprobs == 0).all()
    assert shared.metrics["critic/loss"] == pytest.approx(alone.metrics["critic/loss"], rel=1e-6)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(data=st.data(), seed=st.integers(0, 500), ranks=st.sampled_from([1, 2, 4]))
@settings(deadline=None, max_examples=20)
def test_any_split_has_the_same_gradient(options, data, seed, ranks):
    """Over ranks and micro-batches, in any order."""
    batch = random_batch(seed)
    order = data.draw(st.permutations(range(batch.num_sequences)))
    cut = [[[s] for s in order[rank::ranks]] for rank in range(ranks)]
    objective = ValueObjective(CriticConfig(**options))
    whole, parts = (gradient(objective, Aggregator("token-mean"), batch, split) for split in (None, cut))

    assert torch.allclose(parts.others["new_values"], whole.others["new_values"], rtol=1e-6, atol=1e-9)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-4, abs=1e-6)
    assert parts.metrics == pytest.approx(whole.metrics, rel=1e-4, abs=1e-5)


def test_nothing_outside_the_mask_counts():
    """Loss 0 and gradient 0 there; an empty mask has no metrics."""
    batch = random_batch(0).with_tokens(returns=torch.full((random_batch(0).num_tokens,), 5.0))
    objective = ValueObjective(CriticConfig())
    some = gradient(objective, Aggregator("token-mean"), batch)
    none = gradient(objective, Aggregator("token-mean"), batch.with_loss_mask(torch.zeros_like(batch.loss_mask)))

    assert (some.others["new_values"][~batch.loss_mask] == 0).all()
    assert (none.loss, none.metrics) == (0.0, {})
    assert (none.others["new_values"] == 0).all()
