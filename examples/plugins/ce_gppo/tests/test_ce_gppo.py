"""The loss `ce_gppo`, by value and gradient."""

from __future__ import annotations

import pytest
import torch
from core_rl_example_ce_gppo.config import CeGppoConfig
from core_rl_example_ce_gppo.loss import CeGppo

from core_rl.data.batch import PackedBatch
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.losses import assert_equals_reference, value_and_gradient

OPTIONS = [{}, {"clip_low": 0.1, "clip_high": 0.1, "beta_low": 0.5, "beta_high": 2.0}, {"beta_low": 0.0, "beta_high": 0.0}]


def make(**options):
    return CeGppo(CeGppoConfig(**options))


def reference(options):
    """The three cases of the paper, token by token; what has no gradient is a plain float."""
    config = CeGppoConfig(**options)

    def losses(row):
        values = []
        for p, q, a in zip(row["logprobs"], row["old_logprobs"], row["advantages"], strict=True):
            r, advantage = torch.exp(p) / torch.exp(q), a.item()
            if advantage < 0 and r.item() < 1 - config.clip_low:
                r = config.beta_low * (1 - config.clip_low) / r.item() * r
            elif advantage > 0 and r.item() > 1 + config.clip_high:
                r = config.beta_high * (1 + config.clip_high) / r.item() * r
            values.append(-r * advantage)
        return values

    return losses


def two_tokens(*, ratios, advantages):
    """One sequence of three tokens; the last two are in the mask and have these ratios."""
    logs = torch.tensor([1.0, *ratios]).double().log()
    return PackedBatch(
        tokens=torch.tensor([5, 6, 7]),
        cu_seqlens=torch.tensor([0, 3], dtype=torch.int32),
        positions=torch.tensor([0, 1, 2], dtype=torch.int32),
        loss_mask=torch.tensor([False, True, True]),
        token_fields={
            "logprobs": torch.full((3,), -4.0).double(),
            "old_logprobs": -4.0 - logs,
            "advantages": torch.tensor([0.0, *advantages]).double(),
        },
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_value_and_gradient_are_those_of_the_paper(options):
    """In float64, both signs of the advantage, ratios on both sides of the clip."""
    assert_equals_reference(make(**options), reference(options))


def test_the_gradient_beyond_the_clip_is_that_of_its_edge():
    """By hand: -beta_low (1 - clip_low) A at a ratio of 0.01, -beta_high (1 + clip_high) A at 50."""
    batch = two_tokens(ratios=(0.01, 50.0), advantages=(-2.0, 3.0))
    values, grad = value_and_gradient(make(clip_low=0.2, clip_high=0.3, beta_low=0.5, beta_high=0.25), batch)

    expected = torch.tensor([0.0, 0.5 * 0.8 * 2.0, -0.25 * 1.3 * 3.0]).double()
    assert torch.allclose(values, expected)
    assert torch.allclose(grad, expected)


def test_without_betas_the_gradient_is_that_of_ppo():
    """min(r A, clip(r) A), derived by autograd."""
    batch = in_double(random_batch(3, num_groups=6, spread=0.6))
    _, grad = value_and_gradient(make(beta_low=0.0, beta_high=0.0), batch)
    leaf = batch["logprobs"].clone().requires_grad_()
    ratio, advantages = (leaf - batch["old_logprobs"]).exp(), batch["advantages"]
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages).where(batch.loss_mask, 0.0)
    (expected,) = torch.autograd.grad(-surrogate.sum(), leaf)

    assert torch.allclose(grad, expected)


def test_metrics_count_tokens_beyond_each_edge():
    """As (sum, count) over the tokens in the mask."""
    batch = two_tokens(ratios=(0.5, 0.5), advantages=(-1.0, 1.0))
    metrics = make()(batch["logprobs"], batch).metrics

    assert {name: (int(part), int(whole)) for name, (part, whole) in metrics.items()} == {
        "ratio/kept_low_frac": (1, 2),
        "ratio/kept_high_frac": (0, 2),
    }


@pytest.mark.parametrize("options", [{"clip_low": 1.0}, {"clip_high": 0.0}, {"beta_low": -0.1}, {"beta_high": -1.0}])
def test_options_out_of_range_are_refused(options):
    """A clip that is none, and a gradient with its sign turned."""
    with pytest.raises(ValueError, match=next(iter(options))):
        CeGppoConfig(**options)
