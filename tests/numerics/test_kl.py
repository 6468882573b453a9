"""KL estimators: values and gradients per token, and what they are in expectation."""

from __future__ import annotations

import pytest
import torch

from core_rl.numerics.kl import kl_estimate

from . import reference

ESTIMATORS = ["k1", "abs", "k2", "k3", "k1+", "k3+"]
PAIRS = [(-1.0, -1.5), (-0.2, -3.0), (-4.0, -0.1), (-1e-6, -2.0), (-0.7, -0.69)]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("unbiased", [False, True])
def test_values_and_gradients_are_those_of_the_definition(estimator, unbiased):
    """Against formulas written by hand; the unbiased form has the product rule's gradient."""
    log_p = torch.tensor([p for p, _ in PAIRS], dtype=torch.float64, requires_grad=True)
    log_ref = torch.tensor([r for _, r in PAIRS], dtype=torch.float64)
    log_old = log_p.detach() + torch.tensor([0.3, -0.2, 0.0, 0.1, -0.5], dtype=torch.float64)
    result = kl_estimate(log_p, log_ref, estimator, old_logprobs=log_old if unbiased else None)
    result.sum().backward()

    expected = [reference.kl(estimator, p, r) for p, r in PAIRS]
    if unbiased:
        factors = (log_p.detach() - log_old).exp().tolist()
        expected = [(r * k, r * dk + r * k) for r, (k, dk) in zip(factors, expected, strict=True)]

    assert result.tolist() == pytest.approx([value for value, _ in expected], rel=1e-12)
    assert log_p.grad.tolist() == pytest.approx([slope for _, slope in expected], rel=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_equal_policies_have_no_distance(estimator):
    """Value 0 to the bit, also for a token of probability 1."""
    log_p = torch.tensor([-2.5, 0.0])

    assert (kl_estimate(log_p, log_p, estimator) == 0).all()


def _categorical():
    random = torch.Generator().manual_seed(4)
    logits = [torch.randn(6, generator=random, dtype=torch.float64) for _ in range(3)]
    policy = logits[0].requires_grad_()
    log_p, log_ref, log_old = (x.log_softmax(0) for x in logits)
    true = (log_p.exp() * (log_p - log_ref)).sum()
    slope = torch.autograd.grad(true, policy, retain_graph=True)[0]
    return policy, log_p, log_ref, log_old, true.item(), slope


@pytest.mark.parametrize("estimator", ["k1", "k3", "k1+", "k3+"])
def test_k1_and_k3_are_unbiased_on_policy(estimator):
    """Over all tokens of a vocabulary of six, weighted with the policy, the estimate is the KL."""
    _, log_p, log_ref, _, true, _ = _categorical()

    assert (log_p.exp() * kl_estimate(log_p, log_ref, estimator)).sum().item() == pytest.approx(true, rel=1e-12)


@pytest.mark.parametrize(("estimator", "right"), [("k2", True), ("k1+", True), ("k3+", True), ("k1", False), ("k3", False)])
def test_whose_gradient_is_that_of_the_kl_on_policy(estimator, right):
    """k2, and the forms with its gradient, follow the true KL; k1 has mean gradient zero, k3 that of another divergence."""
    policy, log_p, log_ref, _, _, slope = _categorical()
    expected_loss = (log_p.detach().exp() * kl_estimate(log_p, log_ref, estimator)).sum()
    found = torch.autograd.grad(expected_loss, policy)[0]

    assert torch.allclose(found, slope, atol=1e-12) is right
    assert estimator != "k1" or found.abs().max() < 1e-12


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_the_unbiased_form_is_right_off_policy(estimator):
    """Sampled from an older policy, value and gradient of the ratio-weighted estimate are those of the true KL."""
    policy, log_p, log_ref, log_old, true, slope = _categorical()
    expected_loss = (log_old.exp() * kl_estimate(log_p, log_ref, estimator, old_logprobs=log_old)).sum()
    found = torch.autograd.grad(expected_loss, policy)[0]

    assert expected_loss.item() == pytest.approx(true, rel=1e-12)
    assert torch.allclose(found, slope, atol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_extremes_stay_finite(estimator):
    """Log-probabilities a thousand apart in float32: finite value and gradient."""
    log_p = torch.tensor([-1000.0, 0.0], requires_grad=True)
    result = kl_estimate(log_p, torch.tensor([0.0, -1000.0]), estimator, old_logprobs=torch.tensor([0.0, -1000.0]))
    result.sum().backward()

    assert result.isfinite().all()
    assert log_p.grad.isfinite().all()


@pytest.mark.parametrize("gap", [1e-3, -1e-4])
def test_k3_of_nearby_policies_keeps_its_digits_in_float32(gap):
    """Half the square of the gap, far below the spacing of floats at 1."""
    log_ref = torch.tensor([-0.001])
    difference = (log_ref + gap - log_ref).double().item()

    assert kl_estimate(log_ref + gap, log_ref, "k3").item() == pytest.approx(reference.kl("k3", difference, 0.0)[0], rel=1e-2)


def test_a_bound_on_the_value_takes_the_gradient_away():
    """verl's clamp at 10."""
    log_p = torch.tensor([-8.0, -1.0], requires_grad=True)
    result = kl_estimate(log_p, torch.tensor([-1.0, -1.2]), "k3", value_bound=10.0)
    result.sum().backward()

    assert result[0] == 10.0
    assert log_p.grad[0] == 0.0
    assert log_p.grad[1] != 0.0


def test_an_unknown_estimator_is_named():
    """The message lists the six."""
    with pytest.raises(ValueError, match="k1, abs, k2, k3, k1\\+ and k3\\+, found 'k4'"):
        kl_estimate(torch.zeros(1), torch.zeros(1), "k4")
