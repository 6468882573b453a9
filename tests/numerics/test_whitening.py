"""Masked means, variances and whitening."""

from __future__ import annotations

import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.numerics.whitening import masked_mean, masked_variance, whiten


@given(seed=st.integers(0, 200), std=st.sampled_from(["sample", "population"]), shift=st.booleans())
@settings(deadline=None, max_examples=40)
def test_the_definition(seed, std, shift):
    """Against the statistics module, over the tokens in the mask; NaN outside is not seen."""
    random = torch.Generator().manual_seed(seed)
    values = 100 + torch.randn(30, generator=random, dtype=torch.float64)
    mask = torch.rand(30, generator=random) > 0.5
    kept = values[mask].tolist()
    dirty = values.where(mask, torch.nan)
    mean = statistics.fmean(kept)
    variance = (statistics.variance if std == "sample" else statistics.pvariance)(kept)
    expected = [(x - mean) / (variance + 1e-8) ** 0.5 + (0 if shift else mean) for x in kept]

    assert masked_mean(dirty, mask).item() == pytest.approx(mean)
    assert masked_variance(dirty, mask, std).item() == pytest.approx(variance)
    assert whiten(dirty, mask, std=std, shift_mean=shift)[mask].tolist() == pytest.approx(expected)
    assert (whiten(dirty, mask)[~mask] == 0).all()


@pytest.mark.parametrize("std", ["sample", "population"])
@pytest.mark.parametrize("values", [[], [3.0], [2.0, 2.0, 2.0]])
def test_nothing_one_and_equal_ones_become_zero(values, std):
    """Never NaN."""
    tensor = torch.tensor([*values, 9.0])
    mask = torch.tensor([*[True] * len(values), False])

    assert (whiten(tensor, mask, std=std) == 0).all()


def test_the_gradient_is_that_of_finite_differences():
    """Through mean and variance."""
    values = torch.tensor([1.0, -2.0, 0.5, 9.0, 3.0], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([True, True, False, True, True])

    assert torch.autograd.gradcheck(lambda x: whiten(x, mask), (values,))
