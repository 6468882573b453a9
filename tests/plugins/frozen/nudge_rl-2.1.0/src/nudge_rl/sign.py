from __future__ import annotations

from collections.abc import Mapping

import torch

from core_rl.data.batch import PackedBatch
from core_rl.numerics.groups import group_mean
from core_rl.numerics.segments import broadcast
from nudge_rl.config import SignConfig


class Sign:
    def __init__(self, options: SignConfig) -> None:
        self.step = options.step

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        rewards = batch["rewards"]
        signs = self.step * torch.sign(rewards - group_mean(rewards, batch["group"])).nan_to_num().float()
        return {"advantages": broadcast(signs, batch.cu_seqlens, batch.num_tokens).where(batch.loss_mask, 0.0)}
