"""Fingerprints of weights."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.fingerprint import fingerprint, same


def weights(seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = {"a": (40, 96), "b": (300,), "c": (3, 2), "d": (), "e": (0, 4), "f": (7, 11, 13)}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def test_small_tensor_by_hand():
    """Three elements, the second negative: w = 1, 4/3, 5/3, and a negative counts 3/2."""
    value = fingerprint([("x", torch.tensor([3.0, -6.0, 9.0]))])["x"]

    assert value == pytest.approx(3 * 1 + 6 * 1.5 * 4 / 3 + 9 * 5 / 3, rel=1e-15)


def test_memory_layout_does_not_matter():
    """Transposed, sliced and expanded views are read by their logical index."""
    tensor = torch.randn(64, 100)
    views = {"column": tensor.t().contiguous().t(), "slice": torch.cat([tensor, tensor], 1)[:, :100]}

    for view in views.values():
        assert not view.is_contiguous()
        assert same(fingerprint([("x", tensor)]), fingerprint([("x", view)])) is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_equal_values_in_another_dtype_are_equal(dtype):
    """A value that both types hold is the same number to both."""
    low = {name: tensor.to(dtype) for name, tensor in weights().items()}

    assert same(fingerprint(low.items()), fingerprint([(name, t.double()) for name, t in low.items()])) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t * (1 + 1e-6),
        torch.neg,
        lambda t: t.flip(0),
        lambda t: t.roll(1, -1),
        torch.zeros_like,
        lambda t: torch.where(t == t[0, 0], torch.nan, t),
    ],
)
def test_changes_are_seen(change):
    """Scale, sign, order, rows, zeros, NaN; the difference names the tensor."""
    before = weights()
    difference = same(fingerprint(before.items()), fingerprint({**before, "a": change(before["a"])}.items()))

    assert difference is not None
    assert difference.startswith("a is ")


@given(rows=st.integers(1, 70), columns=st.integers(1, 70), samples=st.integers(2, 300), seed=st.integers(0, 9))
@settings(deadline=None, max_examples=60)
def test_contiguous_and_transposed_take_the_same_elements(rows, columns, samples, seed):
    """The quick path over contiguous memory picks what the general one picks, for any shape and sample size."""
    tensor = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    other = tensor.t().contiguous().t()

    assert same(fingerprint([("x", tensor)], samples=samples), fingerprint([("x", other)], samples=samples)) is None


def test_a_power_of_two_width_is_sampled_across_its_columns():
    """A change in every second column of a 512-wide matrix cannot hide."""
    tensor = torch.ones(1024, 512)
    changed = tensor.clone()
    changed[:, 1::2] = 2.0

    assert same(fingerprint([("x", tensor)]), fingerprint([("x", changed)])) is not None


def test_names_and_tolerance():
    """Missing names are named with their side; a tolerance lets small differences pass; NaN equals NaN."""
    assert same({"a": 1.0}, {"a": 1.0, "b": 2.0, "c": 3.0}) == "b (and 1 more) is missing on the first side"
    assert same({"a": 1.0, "b": 2.0}, {"a": 1.0}) == "b is missing on the second side"
    assert same({"a": 1.0}, {"a": 1.001}, rtol=0.01) is None
    assert same({"a": 1.0}, {"a": 1.001}) is not None
    assert same({"a": float("nan")}, {"a": float("nan")}) is None
    assert list(fingerprint(weights().items())) == list("abcdef")
