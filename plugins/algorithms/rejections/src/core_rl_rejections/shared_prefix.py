"""What samples of different rewards begin with alike says nothing of why the rewards differ (AReaL's min_filter_prefix_tokens).

N tokens. Within a group, a token is contested iff a sample with another reward has the same tokens up to and including it. The contested
tokens of a sample are its first ones. When at least `min_tokens` of them were generated they leave the loss, unless nothing of the sample
would be left.

Prefixes are compared by a 64-bit hash of all tokens so far, tool output included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.segments import broadcast, prefix_sum, segment_count
from core_rl.roles.scoring import Verdict
from core_rl_rejections._report import dropped

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_rejections.config import SharedPrefixConfig


class SharedPrefix:
    """A rejection."""

    def __init__(self, options: SharedPrefixConfig) -> None:
        self.min_tokens = options.min_tokens

    def __call__(self, batch: PackedBatch) -> Verdict:
        mask, cu_seqlens = batch.loss_mask, batch.cu_seqlens
        contested = contested_tokens(batch) & batch["generated"]
        count = segment_count(contested, cu_seqlens)
        left = segment_count(mask & ~contested, cu_seqlens)
        drops = (count >= self.min_tokens) & (left > 0)
        keep = ~(contested & broadcast(drops, cu_seqlens, batch.num_tokens))
        return Verdict(keep=keep, metrics=dropped("shared_prefix", keep, mask))


def contested_tokens(batch: PackedBatch) -> torch.Tensor:
    """[N] bool: another sample of the group with another reward has the same tokens up to here. A failed reward contests nothing."""
    group = batch["group"][batch.sequence_ids]
    rewards = batch["rewards"].double()[batch.sequence_ids]
    known = rewards.isfinite()
    _, index = torch.unique(_mixed(_prefixes(batch) + _mixed(group)), return_inverse=True)
    count = int(index.max()) + 1
    lowest = rewards.new_full((count,), torch.inf).scatter_reduce(0, index, rewards.where(known, torch.inf), "amin")
    highest = rewards.new_full((count,), -torch.inf).scatter_reduce(0, index, rewards.where(known, -torch.inf), "amax")
    return (highest > lowest)[index] & known


def _prefixes(batch: PackedBatch) -> torch.Tensor:
    """[N] int64: a hash of a sequence's tokens up to and including each, and of how many they are."""
    return prefix_sum(_mixed(batch.tokens * 1_000_003 + batch.positions.long() * 7_919_111), batch.cu_seqlens)


def _mixed(values: torch.Tensor) -> torch.Tensor:
    """[N] int64 spread over 64 bits (the finaliser of splitmix64; products wrap around)."""
    x = values * -7046029254386353131
    x = (x ^ (x >> 30)) * -4658895280553007687
    x = (x ^ (x >> 27)) * -7723592293110705685
    return x ^ (x >> 31)
