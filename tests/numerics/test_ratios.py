"""Importance ratios: values, gradients, limits."""

from __future__ import annotations

import math

import pytest
import torch

from core_rl.numerics.ratios import LOG_RATIO_BOUND, log_ratios, ratios
from core_rl.testing.batches import in_double, random_batch

from . import reference

LEVELS = ["token", "sequence", "geometric"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(4))
def test_values_and_gradients_are_those_of_the_definition(level, seed):
    """Ratio of each level, and the gradient of a weighted sum of ratios by both policies."""
    batch = in_double(random_batch(seed))
    log_p, log_q = batch["logprobs"].requires_grad_(), batch["old_logprobs"].requires_grad_()
    coefficient = torch.randn(batch.num_tokens, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    result = ratios(log_p, log_q, batch, level)
    (result * coefficient).sum().backward()

    masks = reference.rows(batch.loss_mask, batch)
    expected, by_p = [], []
    for row in zip(*(reference.rows(x, batch) for x in (log_p, log_q, coefficient)), masks, strict=True):
        p, q, c, m = row
        r = reference.ratio(level, p, q, m)
        expected += r
        inside = max(1, sum(m))
        pull = sum(ci * ri for ci, ri, mi in zip(c, r, m, strict=True) if mi)
        share = {"sequence": pull, "geometric": pull / inside}
        by_p += [0.0 if not mi else ci * ri if level == "token" else share[level] for ci, ri, mi in zip(c, r, m, strict=True)]

    assert result.tolist() == pytest.approx(expected, rel=1e-12)
    assert log_p.grad.tolist() == pytest.approx(by_p, rel=1e-10, abs=1e-14)
    assert log_q.grad.tolist() == pytest.approx([-x for x in by_p], rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("level", LEVELS)
def test_equal_policies_have_ratio_one(level):
    """To the bit, in float32."""
    batch = random_batch(1)

    assert (ratios(batch["logprobs"], batch["logprobs"], batch, level) == 1).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("gap", [1e4, -1e4])
def test_extreme_ratios_are_clamped_without_gradient(level, gap):
    """Far beyond the bound: e^+-20, finite, and no gradient."""
    batch = random_batch(2)
    log_p = (batch["old_logprobs"] + gap).where(batch.loss_mask, 0.0).requires_grad_()
    result = ratios(log_p, batch["old_logprobs"], batch, level)
    result.sum().backward()

    assert result[batch.loss_mask].tolist() == pytest.approx(
        [math.exp(math.copysign(LOG_RATIO_BOUND, gap))] * int(batch.loss_mask.sum())
    )
    assert (log_p.grad == 0).all()


def test_garbage_outside_the_mask_is_not_seen():
    """NaN and infinity on prompt tokens: ratio 1, log-ratio 0, zero gradient, and no harm to the sequence's ratio."""
    batch = random_batch(3)
    clean = ratios(batch["logprobs"], batch["old_logprobs"], batch, "geometric")
    dirty = batch["logprobs"].where(batch.loss_mask, torch.nan).requires_grad_()
    result = ratios(dirty, batch["old_logprobs"], batch, "geometric")
    result.sum().backward()

    assert torch.equal(result, clean)
    assert dirty.grad.isfinite().all()
    assert (log_ratios(dirty, batch["old_logprobs"], batch)[~batch.loss_mask] == 0).all()
