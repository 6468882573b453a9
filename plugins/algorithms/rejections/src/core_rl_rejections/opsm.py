"""Off-policy sequence masking (DeepSeek-V3.2, 2512.02556, §3.1).

A sequence i leaves the loss iff its advantage is negative and mean over its tokens of (log mu - log pi_old) > delta: what is pushed away
should at least be what the policy itself would write. pi_old is the trainer's policy at the start of the batch.

Where others differ: slime compares pi_old with the current policy, delta 1e-4; with one optimizer step a batch that is always 0.
A sequence whose tokens have advantages of both signs is judged by their mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.segments import broadcast, segment_mean
from core_rl.roles.scoring import Verdict
from core_rl_rejections._report import dropped

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_rejections.config import OpsmConfig


class Opsm:
    """A rejection."""

    def __init__(self, options: OpsmConfig) -> None:
        self.delta = options.delta

    def __call__(self, batch: PackedBatch) -> Verdict:
        mask, cu_seqlens = batch.loss_mask, batch.cu_seqlens
        divergence = segment_mean(batch["rollout_logprobs"] - batch["old_logprobs"], cu_seqlens, mask)
        advantage = segment_mean(batch["advantages"], cu_seqlens, mask)
        keep = broadcast(~((advantage < 0) & (divergence > self.delta)), cu_seqlens, batch.num_tokens)
        return Verdict(keep=keep, metrics=dropped("opsm", keep, mask))
