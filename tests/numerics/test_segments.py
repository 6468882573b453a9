"""Segment reductions and scans against Python loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.numerics import segments

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=7)


def _case(lengths, seed):
    random = torch.Generator().manual_seed(seed)
    cu_seqlens = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    values = torch.randn(sum(lengths), generator=random, dtype=torch.float64)
    return values, cu_seqlens, torch.rand(sum(lengths), generator=random) > 0.4


def _rows(values, lengths):
    return [row.tolist() for row in values.split(lengths)]


@given(lengths=LENGTHS, seed=st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_reductions_are_those_of_a_loop(lengths, seed):
    """Sum, count, mean, max and min of the masked tokens of each segment; the neutral element for nothing."""
    values, cu_seqlens, mask = _case(lengths, seed)
    kept = [
        [x for x, m in zip(*row, strict=True) if m] for row in zip(_rows(values, lengths), _rows(mask, lengths), strict=True)
    ]

    assert segments.segment_sum(values, cu_seqlens, mask).tolist() == pytest.approx([sum(row) for row in kept])
    assert segments.segment_count(mask, cu_seqlens).tolist() == [len(row) for row in kept]
    assert segments.segment_mean(values, cu_seqlens, mask).tolist() == pytest.approx([sum(r) / max(1, len(r)) for r in kept])
    assert segments.segment_max(values, cu_seqlens, mask).tolist() == [max(row, default=-torch.inf) for row in kept]
    assert segments.segment_min(values, cu_seqlens, mask).tolist() == [min(row, default=torch.inf) for row in kept]


@given(lengths=LENGTHS, seed=st.integers(0, 99), discount=st.sampled_from([0.0, 0.5, 0.95, 1.0]))
@settings(deadline=None, max_examples=40)
def test_scans_are_those_of_a_loop(lengths, seed, discount):
    """Prefix sums, and discounted suffix sums, stay inside their segment."""
    values, cu_seqlens, mask = _case(lengths, seed)
    prefix, suffix = [], []
    for row, inside in zip(_rows(values, lengths), _rows(mask, lengths), strict=True):
        kept = [x if m else 0.0 for x, m in zip(row, inside, strict=True)]
        prefix += [sum(kept[: t + 1]) for t in range(len(kept))]
        suffix += [sum(discount ** (j - t) * kept[j] for j in range(t, len(kept))) for t in range(len(kept))]

    assert segments.prefix_sum(values, cu_seqlens, mask).tolist() == pytest.approx(prefix, abs=1e-12)
    assert segments.discounted_suffix_sum(values, cu_seqlens, discount, mask).tolist() == pytest.approx(suffix, abs=1e-12)


@given(lengths=LENGTHS, seed=st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_each_segment_may_have_a_discount_of_its_own(lengths, seed):
    """0 and 1 among them; as if each segment stood alone."""
    values, cu_seqlens, mask = _case(lengths, seed)
    discounts = torch.tensor([(0.0, 0.5, 1.0, 0.9)[s % 4] for s in range(len(lengths))], dtype=values.dtype)
    found = segments.discounted_suffix_sum(values, cu_seqlens, discounts, mask)
    suffix = []
    for discount, row, inside in zip(discounts.tolist(), _rows(values, lengths), _rows(mask, lengths), strict=True):
        kept = [x if m else 0.0 for x, m in zip(row, inside, strict=True)]
        suffix += [sum(discount ** (j - t) * kept[j] for j in range(t, len(kept))) for t in range(len(kept))]

    assert found.tolist() == pytest.approx(suffix, abs=1e-12)


def test_broadcast_and_ids_go_back_to_tokens():
    """Every token gets its segment's value; an empty segment gets nothing."""
    cu_seqlens = torch.tensor([0, 2, 2, 5], dtype=torch.int32)

    assert segments.segment_ids(cu_seqlens, 5).tolist() == [0, 0, 2, 2, 2]
    assert segments.broadcast(torch.tensor([7.0, 8.0, 9.0]), cu_seqlens, 5).tolist() == [7.0, 7.0, 9.0, 9.0, 9.0]


@pytest.mark.parametrize(
    "function",
    [segments.segment_sum, segments.segment_mean, segments.segment_max, segments.prefix_sum, segments.discounted_suffix_sum],
)
def test_gradients_are_those_of_finite_differences(function):
    """Every reduction and scan that has a gradient has the right one, with and without a mask."""
    values, cu_seqlens, mask = _case([3, 0, 1, 5], seed=1)
    values.requires_grad_()

    assert torch.autograd.gradcheck(lambda x: function(x, cu_seqlens).clamp(min=-1e9), (values,))
    assert torch.autograd.gradcheck(lambda x: function(x, cu_seqlens, mask=mask).clamp(min=-1e9), (values,))


@pytest.mark.parametrize(
    "function", [segments.segment_sum, segments.segment_mean, segments.prefix_sum, segments.discounted_suffix_sum]
)
def test_nan_reaches_nothing_it_should_not(function):
    """NaN outside the mask is nowhere in values or gradients; inside it stays in its own segment."""
    values = torch.tensor([1.0, torch.nan, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    cu_seqlens, mask = torch.tensor([0, 3, 6]), torch.tensor([True, False, True, True, True, True])
    result = function(values, cu_seqlens, mask=mask)
    result.sum().backward()

    assert result.isfinite().all()
    assert values.grad.isfinite().all()
    assert function(values.detach(), cu_seqlens)[-1:].isfinite().all()
    assert function(values.detach().flip(0), cu_seqlens)[:1].isfinite().all()


def test_a_long_sum_in_float32_keeps_its_digits():
    """A million small terms beside a large one: accumulation is in float64."""
    values = torch.cat([torch.tensor([1e8]), torch.full((1_000_000,), 0.5)])
    total = segments.segment_sum(values, torch.tensor([0, values.numel()]))

    assert total.item() == pytest.approx(1e8 + 500_000, rel=1e-7)


def test_no_segments_at_all():
    """An empty batch has empty results."""
    empty, none = torch.zeros(0), torch.zeros(1, dtype=torch.int32)

    assert segments.segment_sum(empty, none).shape == (0,)
    assert segments.prefix_sum(empty, none).shape == (0,)
    assert segments.discounted_suffix_sum(empty, none).shape == (0,)
