"""The core's own normalisers of rewards and advantages.

M values (rewards of sequences, or advantages of tokens), n of them in the mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.groups import normalise
from core_rl.numerics.whitening import whiten

if TYPE_CHECKING:
    from core_rl.builtin.config import MomentsConfig, WhitenConfig


class Whiten:
    """(x - mean) / sqrt(variance + eps) over the batch."""

    def __init__(self, options: WhitenConfig) -> None:
        self.options = options

    def __call__(self, values: torch.Tensor, group: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        del group
        options = self.options
        return whiten(values, mask & values.isfinite(), std=options.std, eps=options.eps, shift_mean=options.centre)


class Moments:
    """(x - mean) / (std + eps), each statistic over the group, the batch, or left out."""

    def __init__(self, options: MomentsConfig) -> None:
        self.options = options

    def __call__(self, values: torch.Tensor, group: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        options = self.options
        return normalise(
            values.where(mask, torch.nan),
            group,
            mean_level=options.mean_level,
            std_level=options.std_level,
            std=options.std,
            leave_one_out=options.leave_one_out,
            eps=options.eps,
        )
