"""One token whose ratio is far off takes its whole sequence out of the loss (SkyRL's outlier-token veto; verl's token veto).

With rho_t = pi_old(t) / mu(t): a sequence stays iff lower <= rho_t <= upper for all its tokens in the mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.ratios import ratios
from core_rl.numerics.segments import broadcast, segment_count
from core_rl.roles.scoring import Verdict
from core_rl_rejections._report import dropped

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_rejections.config import OutlierVetoConfig


class OutlierVeto:
    """A rejection."""

    def __init__(self, options: OutlierVetoConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Verdict:
        options, mask = self.options, batch.loss_mask
        rho = ratios(batch["old_logprobs"], batch["rollout_logprobs"], batch)
        far = rho < options.lower
        if options.upper is not None:
            far |= rho > options.upper
        clean = segment_count(far & mask, batch.cu_seqlens) == 0
        keep = broadcast(clean, batch.cu_seqlens, batch.num_tokens)
        return Verdict(keep=keep, metrics=dropped("outlier_veto", keep, mask))
