"""Rewards of tokens: what each token of a sequence earns, from the sequence's reward and what is paid on the way.

N tokens, S sequences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.segments import segment_sum

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch


def token_rewards(batch: PackedBatch) -> torch.Tensor:
    """[N] float32: the sequence's reward at its last token in the mask, the KL penalty and the rewards of turns where they fall.

    `rewards` include the KL penalty of the whole sequence (`core_rl.objective.apply_kl_to_rewards`), which is taken out of the last
    token again. A reward of a turn whose last token is outside the mask (an environment's own turn has none inside) is paid at the
    last token in the mask before it, and not at all where the policy has written nothing yet. A failed reward (NaN) counts 0.
    """
    rewards = batch["rewards"]
    per_token = torch.zeros(batch.num_tokens, device=batch.tokens.device)
    if "kl_rewards" in batch:
        per_token = per_token + batch["kl_rewards"].where(batch.loss_mask, 0.0)
        rewards = rewards - segment_sum(batch["kl_rewards"], batch.cu_seqlens, batch.loss_mask)
    if "turn_rewards" in batch:
        per_token = per_token + _paid_in_mask(batch["turn_rewards"], batch)
    last = last_tokens(batch)
    known = last >= 0
    return per_token.index_add(0, last[known], rewards[known].nan_to_num(0.0).to(per_token.dtype))


def _paid_in_mask(rewards: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
    """[N] -> [N]: each reward at the last token in the mask up to its own, within the sequence."""
    earned = rewards.nonzero().squeeze(-1)
    index = torch.arange(batch.num_tokens, device=rewards.device)
    nearest = index.where(batch.loss_mask, -1).cummax(0).values[earned]
    own = nearest >= batch.cu_seqlens.long()[batch.sequence_ids[earned]]
    return torch.zeros_like(rewards).index_add(0, nearest[own], rewards[earned][own])


def last_tokens(batch: PackedBatch) -> torch.Tensor:
    """[S] int64: the index of each sequence's last token in the mask, -1 without one."""
    index = torch.arange(batch.num_tokens, device=batch.tokens.device).where(batch.loss_mask, -1)
    return torch.segment_reduce(index.double(), "max", lengths=batch.lengths, unsafe=True).long()
