"""PF-PPO (2409.06957): samples whose reward is likely to be right are trained on more often.

S sequences. Sample i is drawn with replacement, with a probability in proportion to

    w_i = |R_i|^power                                     pow
          1 if R_i is the highest or the lowest, else 0   max_min     (the paper's best-worst)
          0.4 if R_i is the highest, else 0.1             max_random  (the paper's best-random)

As many are drawn as there are to draw from: for every prompt from its own samples (`level: group`, the paper), or from the whole batch
(`level: batch`, verl). Rewards are those before normalisation and KL penalty. Failed rewards, and samples of which the rejections left
nothing, are never drawn. Where all w_i are 0 (pow of rewards that are all 0) every sample is as likely as every other.

Where this differs from other systems: verl adds 1e-8 to every w_i, and highest and lowest are those of the whole batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.segments import segment_count

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_reinforce.config import PfPpoConfig


class PfPpo:
    """A resampler."""

    def __init__(self, options: PfPpoConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch, seed: int) -> list[int]:
        random = torch.Generator().manual_seed(seed)
        rewards = batch["raw_rewards"].double()
        able = rewards.isfinite() & (segment_count(batch.loss_mask, batch.cu_seqlens) > 0)
        group = batch["group"] if self.options.level == "group" else torch.zeros_like(batch["group"])
        chosen: list[int] = []
        for name in group.unique().tolist():
            members = (able & (group == name)).nonzero().flatten()
            if members.numel():
                drawn = torch.multinomial(self._weights(rewards[members]), members.numel(), replacement=True, generator=random)
                chosen += members[drawn.sort().values].tolist()
        return chosen

    def _weights(self, rewards: torch.Tensor) -> torch.Tensor:
        """[M] -> [M] float64, not all 0."""
        best = rewards == rewards.max()
        if self.options.weights == "max_min":
            return (best | (rewards == rewards.min())).double()
        if self.options.weights == "max_random":
            return torch.where(best, 0.4, 0.1).double()
        weights = (rewards.abs() / rewards.abs().max().clamp(min=torch.finfo(torch.float64).tiny)) ** self.options.power
        return weights if weights.any() else torch.ones_like(weights)
