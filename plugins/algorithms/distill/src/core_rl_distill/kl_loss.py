"""Distillation on the sampled tokens: an estimate of KL(student || teacher) as the loss itself.

N tokens. With d_t = log pi_t - log teacher_t and an estimator f (`core_rl.numerics.kl`),

    l_t = f(d_t),  or pi_t / pi_old_t · f(d_t)      (unbiased)

The gradient goes through pi alone. On samples of the student, that of k2 is the gradient of KL(pi || teacher), the same as the advantage
`distill` has at a ratio of 1; that of plain k3 is the gradient of KL(teacher || pi). That of plain k1 is grad log pi, in which there is no
teacher: the options refuse it. A log-ratio beyond ±20 has no gradient in the exponential of k3, and keeps that of d.

verl has k3 as its default too, and clamps its value to ±10; here that is `estimator: {name: k3, value_bound: 10}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.ratios import ratios
from core_rl.plugins.build import build
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import KlEstimator
    from core_rl_distill.config import DistillKlConfig


class DistillKl:
    """A loss."""

    def __init__(self, options: DistillKlConfig) -> None:
        self.unbiased = options.unbiased
        self.estimator: KlEstimator = build(options.estimator)

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        values = self.estimator(logprobs, batch["teacher_logprobs"])
        if self.unbiased:
            values = values * ratios(logprobs, batch["old_logprobs"], batch)
        return LossOutput(values=values, metrics={})
