"""MaxRL (2602.02710): the group mean divides too, so that hard prompts count as they do in maximum likelihood.

S sequences. With rewards of 0 and 1 the gradient of log(success rate) is that of the success rate over itself. Every token of sequence i gets

    A_i = (R_i - mean_G) / mean_G          where mean_G > 0, else 0

Where this differs from other systems:
1. SkyRL divides by mean_G + 1e-6 always: `at_zero: eps`. There a negative mean, which would turn the sign, counts as 0.
2. The formula means rewards that are not negative: nothing else has a success rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from core_rl.numerics.groups import group_mean
from core_rl_reinforce.per_sequence import on_tokens

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_reinforce.config import MaxRlConfig


class MaxRl:
    """An advantage."""

    def __init__(self, options: MaxRlConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        rewards = batch["rewards"]
        mean = group_mean(rewards, batch["group"])
        centred = rewards.double() - mean
        if self.options.at_zero == "eps":
            return on_tokens(centred / (mean.clamp(min=0.0) + self.options.eps), batch)
        return on_tokens((centred / mean).where(mean > 0, 0.0), batch)
