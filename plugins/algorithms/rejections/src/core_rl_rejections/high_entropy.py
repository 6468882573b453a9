"""Only the tokens where the policy was least sure (2506.01939: beyond the 80/20 rule).

M tokens in the mask with entropies H_t of the old policy: the max(1, floor(share · M)) of largest entropy are learnt from. Where several
are as large as the last of them, all of these are, so that the order of packing decides nothing.

In the paper, and in TRL (top_entropy_quantile), the others count 0 and stay in the denominators (`action: zero`). TRL takes the entropies of the
forward pass in training and a quantile of each micro-batch; here they are the old policy's, and the quantile is the batch's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import torch

from core_rl.roles.scoring import Verdict
from core_rl_rejections._report import held_back

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_rejections.config import HighEntropyConfig


class HighEntropy:
    """A rejection."""

    def __init__(self, options: HighEntropyConfig) -> None:
        self.share = options.share
        self.action = options.action

    def __call__(self, batch: PackedBatch) -> Verdict:
        mask, entropy = batch.loss_mask, batch["entropy"]
        chosen = entropy[mask]
        if chosen.numel() == 0:
            return Verdict(keep=torch.ones_like(mask))
        count = max(1, math.floor(self.share * chosen.numel()))
        bound = chosen.topk(count).values[-1]
        keep = (entropy >= bound) | ~mask
        verdict = held_back("high_entropy", keep, batch, self.action)
        return attrs.evolve(verdict, metrics={"high_entropy/bound": float(bound), **verdict.metrics})
