"""Generalised Jensen-Shannon divergence of student and teacher in every place (GKD, 2306.13649, eq. 1 and 5).

N tokens, K tokens compared in each place. With S(v) = pi(v | before t), T(v) = teacher(v | before t) and M = (1 - beta) S + beta T,

    l_t = beta · KL(T || M) + (1 - beta) · KL(S || M)
    beta = 0:  l_t = KL(T || S) = sum_v T(v) (log T(v) - log S(v))
    beta = 1:  l_t = KL(S || T) = sum_v S(v) (log S(v) - log T(v))

Where v does not run over the whole vocabulary but over K ids (`gather_ids`), `tail` says what becomes of the other tokens:

    rest         one more outcome, 1 - sum_v S(v) against 1 - sum_v T(v): never more than the full divergence
    renormalise  S(v) / sum_u S(u) against T(v) / sum_u T(u): how much of S lies outside is not learnt
    ignore       the sums end: not a divergence, may be negative, and for beta near 1 is lowered by moving mass out of the ids

The gradient goes through S alone, and not through the choice of the samples.

Where this differs from the paper:
1. beta 0 and 1 are the two KLs themselves, of which the formula between, divided by beta or 1 - beta, is the limit; TRL does the same.
2. `temperature` divides both models' log-probabilities, which are those at `sampling.temperature` already.
3. The mass of the rest is at least 1e-5, below which its gradient would be rounding, and has none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_distill.config import GjsdConfig

_LOWEST = -1e4
"""Stands for the logarithm of 0, as a teacher may give it for a token that it can never write."""
_REST = 1e-5


class Gjsd:
    """A loss."""

    def __init__(self, options: GjsdConfig) -> None:
        self.options = options

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        del logprobs  # of the sampled token alone
        student = batch["gathered_logprobs"].clamp(min=_LOWEST)
        teacher = batch["teacher_gathered"].to(student).clamp(min=_LOWEST)
        values = divergence(self._over(student), self._over(teacher), self.options.beta)
        mass = {"teacher_mass": teacher.exp().sum(-1), "student_mass": student.exp().sum(-1)}
        metrics = {f"distill/{name}": of_ids for name, of_ids in mass.items()} if self.options.top_k is not None else {}
        return LossOutput(values=values, metrics=sums(metrics, batch.loss_mask))

    def _over(self, logs: torch.Tensor) -> torch.Tensor:
        """[N, K] log-probabilities of the ids -> [N, K or K + 1] those that are compared."""
        options = self.options
        if options.temperature != 1.0 or (options.top_k is not None and options.tail == "renormalise"):
            return (logs / options.temperature).log_softmax(-1)
        if options.top_k is not None and options.tail == "rest":
            return torch.cat([logs, _log_rest(logs)], -1)
        return logs


def divergence(student: torch.Tensor, teacher: torch.Tensor, beta: float) -> torch.Tensor:
    """[N, K], [N, K] log-probabilities -> [N]."""
    if beta == 0.0:
        return (teacher.exp() * (teacher - student)).sum(-1)
    if beta == 1.0:
        return (student.exp() * (student - teacher)).sum(-1)
    mixture = torch.logaddexp(student + math.log1p(-beta), teacher + math.log(beta))
    of_teacher = (teacher.exp() * (teacher - mixture)).sum(-1)
    of_student = (student.exp() * (student - mixture)).sum(-1)
    return beta * of_teacher + (1.0 - beta) * of_student


def _log_rest(logs: torch.Tensor) -> torch.Tensor:
    """[N, K] -> [N, 1]: log(1 - sum_v exp(x_v))."""
    inside = logs.logsumexp(-1, keepdim=True).clamp(max=math.log1p(-_REST))
    return (-inside.expm1()).log()
