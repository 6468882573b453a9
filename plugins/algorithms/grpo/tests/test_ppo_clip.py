"""The loss `ppo_clip`: value, gradient, limits and metrics."""

from __future__ import annotations

import pytest
import torch

from core_rl.testing.batches import in_double, random_batch
from core_rl_grpo.config import PpoClipConfig
from core_rl_grpo.ppo_clip import PpoClip

from .reference import ppo_clip

OPTIONS = [
    {},
    {"clip_low": 0.1, "clip_high": 0.28},
    {"dual_clip": 1.5},
    {"two_sided_delta": 1.4},
    {"dual_clip": 3.0, "two_sided_delta": 1.6, "clip_high": 0.5},
    {"clip_low": 1.0, "clip_high": 1e9},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_are_those_of_the_papers(options, seed):
    """Ratios well inside and well outside of every bound, both signs of the advantage."""
    batch = in_double(random_batch(seed, spread=1.0, num_groups=8))
    logprobs = batch["logprobs"].clone().requires_grad_()
    config = PpoClipConfig(**options)
    values = PpoClip(config)(logprobs, batch).values
    values.sum().backward()
    triples = zip(*(batch[name].tolist() for name in ("logprobs", "old_logprobs", "advantages")), strict=True)
    bounds = {"low": config.clip_low, "high": config.clip_high, "dual": config.dual_clip, "delta": config.two_sided_delta}
    expected = [ppo_clip(*triple, **bounds) for triple in triples]

    assert values.tolist() == pytest.approx([value for value, _ in expected], rel=1e-12)
    assert logprobs.grad.tolist() == pytest.approx([slope for _, slope in expected], rel=1e-12, abs=1e-15)


def _one(log_ratio, advantage, **options):
    batch = random_batch(0, num_groups=1, group_size=1, max_length=2)
    batch = batch.with_loss_mask(torch.tensor([False, True])).with_tokens(
        old_logprobs=torch.tensor([0.0, -1.0]), advantages=torch.tensor([0.0, advantage])
    )
    logprobs = torch.tensor([0.0, -1.0 + log_ratio], requires_grad=True)
    output = PpoClip(PpoClipConfig(**options))(logprobs, batch)
    output.values.sum().backward()
    return output.values[1].item(), logprobs.grad[1].item(), {n: float(s) / float(c) for n, (s, c) in output.metrics.items()}


def test_at_ratio_one_it_is_reinforce():
    """Value -A, gradient -A."""
    assert _one(0.0, 2.0)[:2] == (-2.0, -2.0)
    assert _one(0.0, -2.0)[:2] == (2.0, 2.0)


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "low", "high"),
    [(1.0, 1.0, 0, 1), (1.0, -1.0, 0, 0), (-1.0, 1.0, 0, 0), (-1.0, -1.0, 1, 0), (0.1, 1.0, 0, 0), (-1.0, 0.0, 0, 0)],
)
def test_what_counts_as_clipped_is_what_has_no_gradient(log_ratio, advantage, low, high):
    """Too high and still pushed up, or too low and still pushed down; nothing else."""
    _, slope, metrics = _one(log_ratio, advantage)

    assert (metrics["ratio/clip_low_frac"], metrics["ratio/clip_high_frac"]) == (low, high)
    assert metrics["ratio/clip_frac"] == low + high
    assert (slope == 0) == (bool(low or high) or advantage == 0)


@pytest.mark.parametrize("options", [{"dual_clip": 3.0}, {"two_sided_delta": 3.0}])
def test_a_bound_for_negative_advantages(options):
    """Ratio e^2 with A = -1: loss 3, no gradient, counted; with A = 1 nothing changes."""
    value, slope, metrics = _one(2.0, -1.0, **options)

    assert (value, slope, metrics["ratio/dual_clip_frac"]) == (3.0, 0.0, 1.0)
    assert _one(2.0, 1.0, **options)[:2] == _one(2.0, 1.0)[:2]
    assert "ratio/dual_clip_frac" not in _one(2.0, -1.0)[2]


@pytest.mark.parametrize("log_ratio", [1e4, -1e4])
@pytest.mark.parametrize("advantage", [1e3, -1e3])
def test_extreme_ratios_stay_finite(log_ratio, advantage):
    """In float32, value and gradient."""
    value, slope, _ = _one(log_ratio, advantage)

    assert abs(value) < 1e13
    assert slope == 0.0
