"""ReMax (2310.10505): the reward of the greedy completion of the same prompt as the baseline.

N tokens, S sequences. With the rewards r_k of tokens and the greedy reward of the sequence's prompt, every token in the mask gets

    A_t = sum_{k >= t} gamma^(k - t) r_k - R(greedy)

A sequence whose greedy reward failed (NaN) has nothing to be compared with: A = 0, as for one whose own reward failed.
The training loop samples the greedy completion; it is not trained on, and no KL penalty is taken from its reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from core_rl.numerics.segments import broadcast
from core_rl_reinforce.returns import returns_to_go

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_reinforce.config import RemaxConfig


class Remax:
    """An advantage."""

    def __init__(self, options: RemaxConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        baseline, gamma = batch["greedy_rewards"], self.options.gamma
        if gamma == 1.0:  # what is taken from the last reward is taken from every return
            return {"advantages": returns_to_go(batch.with_sequences(rewards=batch["rewards"] - baseline), gamma)}
        known = baseline.isfinite() & batch["rewards"].isfinite()
        baseline, compared = (broadcast(one, batch.cu_seqlens, batch.num_tokens) for one in (baseline, known))
        advantages = returns_to_go(batch, gamma) - baseline
        return {"advantages": advantages.where(batch.loss_mask & compared, 0.0)}
