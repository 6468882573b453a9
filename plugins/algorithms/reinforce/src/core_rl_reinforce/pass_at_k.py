"""Pass@k (2503.19595): learn to have one good sample among n, not to have good ones on average.

S sequences. In every group only the best sample has an advantage, what the group's best reward would lose without it:

    A_i = max_{j in G} R_j - max_{j in G, j != i} R_j     = R_1st - R_2nd of the best, 0 of all others

divided by std_G + eps with `scale: std` (verl's norm_adv_by_std_in_grpo). Two best samples alike: 0. Failed rewards (NaN) take no part;
a sample that is left alone has A = 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.groups import Groups, group_std
from core_rl_reinforce.per_sequence import on_tokens

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_reinforce.config import PassAtKConfig


class PassAtK:
    """An advantage."""

    def __init__(self, options: PassAtKConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        rewards, groups = batch["rewards"].double(), Groups.of(batch["group"])
        rewards = rewards.where(rewards.isfinite(), -torch.inf)
        best = _highest(rewards, groups)
        is_best = rewards == groups.spread(best)
        alone = groups.spread(groups.sum(is_best.double())) == 1
        second = _highest(rewards.where(~is_best, -torch.inf), groups)
        lead = groups.spread(best - second).where(is_best & alone, 0.0)
        if self.options.scale == "std":
            std = group_std(batch["rewards"], batch["group"])
            lead = lead / torch.where(std > 0, std + self.options.eps, 1.0)
        return on_tokens(lead, batch)


def _highest(values: torch.Tensor, groups: Groups) -> torch.Tensor:
    """[S] -> [G]; -inf where there is nothing."""
    highest: torch.Tensor = torch.segment_reduce(values[groups.order], "max", lengths=groups.sizes, unsafe=True)
    return highest
