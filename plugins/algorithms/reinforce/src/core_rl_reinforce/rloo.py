"""RLOO (2402.14740): the mean reward of the other samples of the prompt as the baseline.

S sequences, n_G samples of a prompt whose rewards did not fail. Every token of sequence i gets

    A_i = R_i - 1/(n_G - 1) sum_{j in G, j != i} R_j = n_G/(n_G - 1) (R_i - mean_G)

A sample that is left alone, since the other rewards failed, has A = 0; a group size of 1 is refused (verl gives 0 throughout).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from core_rl.numerics.groups import group_mean
from core_rl_reinforce.per_sequence import on_tokens

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch


class Rloo:
    """An advantage."""

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        rewards = batch["rewards"]
        return on_tokens(rewards.double() - group_mean(rewards, batch["group"], leave_one_out=True), batch)
