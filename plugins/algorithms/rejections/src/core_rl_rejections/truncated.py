"""Overlong filtering (DAPO, 2503.14476, §3.4): a completion that was cut at the limit says nothing of its answer.

A sequence is truncated because its finish reason says so, never because of its length. TRL's mask_truncated_completions, SkyRL's
apply_overlong_filtering, ROLL's max_len_mask. Its reward still counts in the statistics of its group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.segments import broadcast
from core_rl.roles.scoring import Verdict
from core_rl_rejections._report import dropped

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_rejections.config import TruncatedConfig


class Truncated:
    """A rejection."""

    def __init__(self, options: TruncatedConfig) -> None:
        del options

    def __call__(self, batch: PackedBatch) -> Verdict:
        keep = ~broadcast(batch["truncated"], batch.cu_seqlens, batch.num_tokens)
        return Verdict(keep=keep, metrics=dropped("truncated", keep, batch.loss_mask))
