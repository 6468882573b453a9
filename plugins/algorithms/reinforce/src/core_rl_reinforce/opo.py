"""OPO (2505.23585): the baseline that has the least variance when the squared gradient of a sample grows with its length.

S sequences. With L_i the tokens that the policy wrote in sequence i, every token of it gets

    A_i = R_i - sum_{j in G} L_j R_j / sum_{j in G} L_j

L_i counts tokens that a rejection has taken out of the loss too: the baseline is that of all samples. Failed rewards (NaN) are in no sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from core_rl.numerics.groups import Groups
from core_rl.numerics.segments import segment_count
from core_rl_reinforce.per_sequence import on_tokens

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch


class Opo:
    """An advantage."""

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        rewards, groups = batch["rewards"].double(), Groups.of(batch["group"])
        known = rewards.isfinite()
        lengths = segment_count(batch["generated"], batch.cu_seqlens).double().where(known, 0.0)
        weighted, total = groups.sum(lengths * rewards.nan_to_num(0.0)), groups.sum(lengths)
        return on_tokens(rewards - groups.spread(weighted / total), batch)
