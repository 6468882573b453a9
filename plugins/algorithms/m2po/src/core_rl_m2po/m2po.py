"""M2PO's mask: a bound on the second moment of the batch's log-ratios (2510.01161, §3.2).

M tokens in the mask, d_t = log mu(t) - log pi_old(t). The tokens of largest d^2 count 0, as few as it takes for

    mean of d^2 over the rest  <  threshold

Where no rest has so small a mean, exactly one token is left: that of the smallest d^2. Variance is bounded where a few tokens make it large, and
all others keep their gradient, however stale; a clip of ratios takes tokens of every kind.

The paper's objective is 1/(sum_i |o_i|) sum_it M_it pi/mu A: a token that M takes away stays in the denominator (`action: zero`). AReaL
narrows its loss mask instead (`mask`), and decides micro-batch by micro-batch; here it is the whole batch's decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.roles.scoring import Verdict

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_m2po.config import M2poConfig


class M2po:
    """A rejection."""

    def __init__(self, options: M2poConfig) -> None:
        self.threshold = options.threshold
        self.zeroes = options.action == "zero"

    def __call__(self, batch: PackedBatch) -> Verdict:
        where = batch.loss_mask.nonzero()[:, 0]
        if where.numel() == 0:
            return Verdict(keep=torch.ones_like(batch.loss_mask))
        squares = (batch["rollout_logprobs"] - batch["old_logprobs"])[where].double().square()
        ascending, order = squares.sort(stable=True)
        means = ascending.cumsum(0) / torch.arange(1, where.numel() + 1, device=where.device)
        kept = max(1, int((means < self.threshold).sum()))  # means never fall, so those below the bound come first
        everything = torch.ones_like(batch.loss_mask)
        near = everything.index_fill(0, where[order[kept:]], value=False)
        metrics = {
            "m2po/second_moment": float(means[-1]),
            "m2po/second_moment_left": float(means[kept - 1]),
            "m2po/dropped_frac": 1 - kept / where.numel(),
        }
        if self.zeroes:
            return Verdict(keep=everything, weights=near.float(), metrics=metrics)
        return Verdict(keep=near, metrics=metrics)
