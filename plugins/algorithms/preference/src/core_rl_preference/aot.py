"""AOT: preference of one distribution over another, quantile by quantile (2406.05882).

P pairs of a batch. With u_(k) the k-th smallest of the u,

    aot            D_k = beta (m_(k) - r_(k))    m the policy's margin log pi(chosen) - log pi(rejected), r the reference's
    aot_unpaired   D_k = beta (a_(k) - b_(k))    a and b the log-ratios of chosen and of rejected completions
    l_k = -(1 - e) log sigmoid(D_k) - e log sigmoid(-D_k)

Sorting needs the whole batch, and a loss sees a part of it. But a small step does not change who is k-th: before the step each value is told
its partner, a constant, and the gradient of the sum over k falls apart into one term for each value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl_preference._log_ratios import Sides
from core_rl_preference.kinds import smoothed

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_preference.config import DpoConfig

KINDS = ("aot", "aot_unpaired")


def with_partners(batch: PackedBatch, policy: Sides, reference: Sides, kind: str) -> PackedBatch:
    """The batch with `<kind>_partner` [S]: what each sequence's own value is compared with."""
    if kind == "aot":
        margins, others = policy.chosen - policy.rejected, reference.chosen - reference.rejected
        partners = partner(margins, others)
        values = (partners, partners)
    else:
        a, b = policy.chosen - reference.chosen, policy.rejected - reference.rejected
        values = (partner(a, b), partner(b, a))
    field = policy.chosen.new_zeros(batch.num_sequences)
    for index, value in zip((policy.pairs.chosen, policy.pairs.rejected), values, strict=True):
        field[index] = value
    return batch.with_sequences(**{f"{kind}_partner": field})


def partner(values: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """[P]: for the k-th smallest value, the k-th smallest of the others."""
    return torch.empty_like(values).scatter(0, values.argsort(stable=True), others.sort().values)


def loss(policy: Sides, ratios: Sides, batch: PackedBatch, options: DpoConfig) -> torch.Tensor:
    """[P]"""
    beta, e = options.beta, options.label_smoothing
    partners = Sides.of(batch[f"{options.loss_type}_partner"], ratios.pairs)
    if options.loss_type == "aot":
        return smoothed(beta * (policy.chosen - policy.rejected - partners.chosen), e)
    own = smoothed(beta * (ratios.chosen - partners.chosen), e)
    other = smoothed(beta * (partners.rejected - ratios.rejected), e)
    return own + other - other.detach()  # the same terms again, for the gradient of the rejected side
