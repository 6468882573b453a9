"""Checks of KL estimators: `core_rl.roles.scoring.KlEstimator`. N tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.testing.kinds.constants import gradient_error
from core_rl.testing.kit.check import checks, expect, shown

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject


def per_token(subject: Subject) -> None:
    """It gives a float32 value for every token, [N], and no mean of them."""
    policy, reference = _logprobs(0)
    found = subject.build()(policy, reference)
    expect(found.shape == policy.shape, f"the shape is {tuple(found.shape)}, expected {tuple(policy.shape)}: one per token")
    expect(found.dtype == torch.float32, f"values are {found.dtype}, expected torch.float32")


def zero_where_equal(subject: Subject) -> None:
    """Two policies that agree on a token have a divergence of 0 there."""
    policy, _ = _logprobs(1)
    found = subject.build()(policy, policy.clone())
    expect(
        torch.allclose(found, torch.zeros_like(found), atol=1e-6),
        f"equal log-probabilities give {shown(found.tolist())}, expected 0",
    )


def token_by_token(subject: Subject) -> None:
    """A token's value depends on that token alone."""
    policy, reference = _logprobs(2)
    one = subject.build()
    single = torch.cat([one(policy[t : t + 1], reference[t : t + 1]) for t in range(policy.numel())])
    expect(torch.allclose(single, one(policy, reference), atol=1e-6), "a token's value depends on the other tokens")


def gradient_is_the_slope(subject: Subject) -> None:
    """It is differentiable in the policy's log-probabilities: as finite differences in float64, with what it detaches held constant."""
    policy, reference = (one.double() for one in _logprobs(3))
    scale = torch.arange(1.0, policy.numel() + 1).double()
    estimator = subject.build()
    error = gradient_error(lambda leaf: (estimator(leaf, reference) * scale).sum(), policy, list(range(policy.numel())))
    expect(error < 1e-4, f"the gradient is {error:.3g} away from finite differences, relative to the largest slope")
    leaf = policy.clone().requires_grad_()
    total = (estimator(leaf, reference) * scale).sum()
    expect(total.requires_grad, "no gradient reaches the policy's log-probabilities")


def finite(subject: Subject) -> None:
    """Values and gradients are finite for log-ratios of ±50 and ±1e4."""
    for shift in (50.0, -50.0, 1e4, -1e4):
        policy, reference = _logprobs(4)
        leaf = policy.requires_grad_()
        found = subject.build()(leaf, reference - shift)
        expect(found.isfinite().all(), f"log-ratios of {shift:g} give {shown(found.tolist())}, expected finite values")
        (slope,) = torch.autograd.grad(found.sum(), leaf)
        expect(
            slope.isfinite().all(), f"log-ratios of {shift:g} give the gradient {shown(slope.tolist())}, expected a finite one"
        )


def same_again(subject: Subject) -> None:
    """The same tokens give the same values, and are left as they are."""
    policy, reference = _logprobs(5)
    before, one = (policy.clone(), reference.clone()), subject.build()
    first = one(policy, reference).clone()
    expect(
        torch.equal(policy, before[0]) and torch.equal(reference, before[1]),
        "it writes into what it is given: compute new tensors",
    )
    expect(torch.equal(first, one(policy, reference)), "a second call gives other values")


def use(subject: Subject) -> None:
    """Once."""
    subject.build()(*_logprobs(0))


def _logprobs(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    policy = -3 * torch.rand(12, generator=random) - 0.05
    return policy, policy + 0.5 * torch.randn(12, generator=random)


CHECKS = checks(per_token, zero_where_equal, token_by_token, gradient_is_the_slope, finite, same_again)
