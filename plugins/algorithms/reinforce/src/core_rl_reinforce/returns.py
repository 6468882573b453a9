"""Rewards-to-go (REINFORCE, Williams 1992; REINFORCE++, 2501.03262).

N tokens, M of them in the mask. Time counts the tokens in the mask, the policy's own actions. Every one of them gets

    A_t = sum_{k >= t} gamma^(k - t) r_k

with the rewards r_k of tokens: that of the sequence at its last token, the KL penalty (`kl.place: reward`) and rewards of turns where they fall.
A sequence whose reward failed (NaN) has A = 0. REINFORCE++ whitens A over the tokens of the batch: that is the algorithm's `advantage_norm`.

Where this differs from other systems:
1. Tokens of tools are no steps of time: they neither discount nor stop a return. verl's REINFORCE++ sets the running return to 0 at every
   token outside the mask, so that the turns before a tool's answer get nothing of the final reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.returns import token_rewards
from core_rl.numerics.segments import broadcast, discounted_suffix_sum, segment_count
from core_rl_reinforce.per_sequence import on_tokens

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_reinforce.config import ReturnsConfig


class Returns:
    """An advantage."""

    def __init__(self, options: ReturnsConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        return {"advantages": returns_to_go(batch, self.options.gamma)}


def returns_to_go(batch: PackedBatch, gamma: float) -> torch.Tensor:
    """[N] float32; 0 outside the mask, and where the reward failed."""
    if gamma == 1.0 and not any(name in batch for name in ("kl_rewards", "turn_rewards")):
        # paid at the end, so that all that comes before it has the same to go
        return on_tokens(batch["rewards"], batch)["advantages"]
    mask = batch.loss_mask & broadcast(batch["rewards"].isfinite(), batch.cu_seqlens, batch.num_tokens)
    counts = segment_count(mask, batch.cu_seqlens)  # [S]
    bounds = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    returns = discounted_suffix_sum(token_rewards(batch)[mask].double(), bounds, gamma)  # [M]
    result = torch.zeros(batch.num_tokens, device=mask.device)
    result[mask] = returns.float()
    return result
