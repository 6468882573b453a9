"""Estimators of KL(policy || reference) from the sampled token alone (http://joschu.net/blog/kl-approx.html).

With d = log pi - log pi_ref of the sampled token, the order being always (policy, reference):

    k1     d                    unbiased; as a loss its gradient has mean zero: use it in the reward
    abs    |d|
    k2     d^2 / 2              biased value; on-policy its gradient is that of the true KL
    k3     e^-d + d - 1         unbiased, never negative (GRPO, 2402.03300)
    k1+    the value of k1 with the gradient of k2:  sg(k1) + k2 - sg(k2)
    k3+    the value of k3 with the gradient of k2

`old_logprobs` makes an estimator `unbiased` under sampling from pi_old: it is multiplied by the differentiable pi/pi_old
(DeepSeek-V3.2, 2512.02556), which makes value and gradient of k1 and k3 those of the true KL(pi || pi_ref) in expectation.

Bounds: in e^-d of k3, d is clamped to +-20 (it would overflow float32 at 89); a clamped exponential has no gradient. `value_bound` clamps the
estimate itself; None by default, as in the papers (verl takes 10 for k3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.ratios import LOG_RATIO_BOUND, bounded_exp

if TYPE_CHECKING:
    import torch

    from core_rl.numerics.names import KlEstimator


def kl_estimate(
    logprobs: torch.Tensor,
    ref_logprobs: torch.Tensor,
    estimator: KlEstimator = "k3",
    *,
    old_logprobs: torch.Tensor | None = None,
    value_bound: float | None = None,
) -> torch.Tensor:
    """Any shape: the estimate at every token, differentiable in `logprobs`. `old_logprobs`: the unbiased form."""
    difference = logprobs - ref_logprobs
    if estimator in ("k1+", "k3+"):
        gradient = _plain(difference, "k2")
        estimate = _plain(difference.detach(), estimator[:2]) + gradient - gradient.detach()
    else:
        estimate = _plain(difference, estimator)
    if old_logprobs is not None:
        estimate = estimate * bounded_exp(logprobs - old_logprobs)
    return estimate if value_bound is None else estimate.clamp(-value_bound, value_bound)


def _plain(difference: torch.Tensor, estimator: str) -> torch.Tensor:
    if estimator == "k1":
        return difference
    if estimator == "abs":
        return difference.abs()
    if estimator == "k2":
        return difference.square() / 2
    if estimator == "k3":
        # expm1, since e^-d - 1 in float32 has lost every digit of d^2 / 2 when d is small, as between trainer and rollout engine
        return (-difference).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).expm1() + difference
    message = f"KL estimators are k1, abs, k2, k3, k1+ and k3+, found {estimator!r}"
    raise ValueError(message)
