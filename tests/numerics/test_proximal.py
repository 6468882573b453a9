"""The log-linear proximal policy: alpha by the age of a token."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.numerics.proximal import loglinear_alpha


@pytest.mark.parametrize(
    ("written", "alpha"),
    [(9, 0.0), (8, 0.5), (7, 2 / 3), (5, 0.8), (0, 0.9), (10, 0.0), (12, 0.0), (-1, 0.0)],
)
def test_alpha_by_hand(written, alpha):
    """In version 10: (10 - 1 - v) / (10 - v). Nothing for what is fresh, newer than the weights, or written by no policy."""
    assert loglinear_alpha(torch.tensor([written], dtype=torch.int32), 10).item() == pytest.approx(alpha)


@settings(deadline=None)
@given(versions=st.lists(st.integers(-1, 60), min_size=1, max_size=20), version=st.integers(0, 50))
def test_alpha_is_the_papers(versions, version):
    """clip((v - 1 - v_t) / (v - v_t), 0, 1), token by token."""
    expected = []
    for written in versions:
        stale = written >= 0 and written < version
        expected.append(min(max((version - 1 - written) / (version - written), 0.0), 1.0) if stale else 0.0)
    found = loglinear_alpha(torch.tensor(versions, dtype=torch.int32), version)

    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx(expected)


def test_an_older_token_lies_nearer_to_the_current_policy():
    """alpha rises with age and never reaches 1: some of mu is always left."""
    alpha = loglinear_alpha(torch.arange(1000, -1, -1, dtype=torch.int32), 1001)

    assert (alpha.diff() > 0).all()
    assert alpha[-1] < 1


def test_no_tokens_are_no_error():
    """[0] -> [0]."""
    assert loglinear_alpha(torch.zeros(0, dtype=torch.int32), 3).tolist() == []
