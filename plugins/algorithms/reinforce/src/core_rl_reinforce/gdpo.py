"""GDPO (2601.05242): every reward is compared within the group before the rewards are added up, so that none drowns in another's scale.

S sequences, K rewards R_ik with weights w_k. Every token of sequence i gets

    A_i = sum_k w_k (R_ik - mean_G R_k) / (std_G R_k + eps)             normalise_then_sum
    A_i <- (A_i - mean_B A) / (std_B A + eps)                           batch_norm, over the batch's samples

A part that failed for a sample (NaN) is in no statistic of its reward and adds 0; a sample without a reward has A = 0. A reward that is the same for the whole group adds 0.

Where this differs from other systems:
1. `sum_then_normalise` without `batch_norm` is GRPO, and TRL's default; its eps is 1e-4.
2. `rewards` themselves are not read, only their parts: what `reward_norm` or `kl.place: reward` change has no effect, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.groups import normalise
from core_rl_reinforce.per_sequence import on_tokens

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_reinforce.config import GdpoConfig

_PREFIX = "rewards/"


class Gdpo:
    """An advantage."""

    def __init__(self, options: GdpoConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        names = [name.removeprefix(_PREFIX) for name in batch.sequence_fields if name.startswith(_PREFIX)]
        weighted = [(batch[f"reward_weights/{name}"].double(), batch[_PREFIX + name].double()) for name in names]
        group, known = batch["group"], batch["rewards"].isfinite()
        if self.options.order == "sum_then_normalise":
            total = torch.stack([weight * reward.nan_to_num(0.0) for weight, reward in weighted]).sum(0)
            advantages = self._normalise(total.where(known, torch.nan), group)
        else:
            advantages = torch.stack([weight * self._normalise(reward, group) for weight, reward in weighted]).sum(0)
        advantages = advantages.where(known, torch.nan)
        if self.options.batch_norm:
            advantages = self._normalise(advantages, torch.zeros_like(group))
        return on_tokens(advantages, batch)

    def _normalise(self, values: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
        return normalise(values, group, std=self.options.std, eps=self.options.eps)
