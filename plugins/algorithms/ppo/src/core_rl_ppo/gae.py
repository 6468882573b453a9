"""Generalised advantages (GAE, 1506.02438) with what VAPO (2504.05118) adds, over tokens or over turns.

N tokens, S sequences. Steps t = 1..T of sequence i, with reward r_t and the critic's value V_t of the state before the step:

    delta_t = r_t + gamma V_{t+1} - V_t                           V_{T+1} = 0
    A_t     = sum_k (gamma lam_i)^k delta_{t+k}                   lam_i = lam, or max(0, 1 - 1 / (alpha L_i)) of L_i tokens
    R_t     = V_t + sum_k (gamma lam_value)^k delta_{t+k}         what the critic learns; lam_value null: lam

`level` token: a step is a token. Its reward is `core_rl.numerics.returns.token_rewards`: the sequence's reward on the last token, the KL
penalty and the rewards of turns where they fall. `between` says what a token is that the policy did not write: no step (carry), or a
step with V = r = 0 (zero), so that a value beyond it comes in only through lambda.
`level` turn: a step is a turn (`core_rl_ppo.turns`), whose A and R stand at each of its tokens.

Where this differs from the papers:
1. lam_i is at least 0: the formula of VAPO is negative for L_i < 1 / alpha, 20 tokens at alpha = 0.05.
2. R_t of VAPO and its A_t come of the same values; nothing is recomputed in between.
3. A sequence whose reward failed (NaN) has A = 0 and R = V.
4. Nothing is whitened here: `advantage_norm` does that, over the whole batch; the PPO baselines whiten each minibatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.gae import gae
from core_rl.numerics.returns import token_rewards
from core_rl.numerics.segments import broadcast, segment_count
from core_rl_ppo.turns import Turns

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_ppo.config import GaeConfig


class Gae:
    """An advantage."""

    def __init__(self, options: GaeConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        if not batch.loss_mask.any():  # then no forward pass was made, and there are no values
            nothing = torch.zeros(batch.num_tokens, device=batch.tokens.device)
            return {"advantages": nothing, "returns": nothing}
        values = batch["values"]
        found = self._turns(batch) if self.options.level == "turn" else self._tokens(batch)
        failed = broadcast(batch["rewards"].isnan(), batch.cu_seqlens, batch.num_tokens)
        advantages, returns = found[0].masked_fill(failed, 0.0), torch.where(failed, values, found[1])
        return {name: x.where(batch.loss_mask, 0.0) for name, x in (("advantages", advantages), ("returns", returns))}

    def _tokens(self, batch: PackedBatch) -> tuple[torch.Tensor, torch.Tensor]:
        mask, rewards, values = batch.loss_mask, token_rewards(batch), batch["values"]
        lam = self._policy_lam(segment_count(mask, batch.cu_seqlens))
        if self.options.between == "zero":
            values, mask = values.where(mask, 0.0), torch.ones_like(mask)
        return self._estimate(rewards, values, batch.cu_seqlens, mask, lam)

    def _turns(self, batch: PackedBatch) -> tuple[torch.Tensor, torch.Tensor]:
        turns = Turns.of(batch)
        rewards, values = turns.sum(token_rewards(batch)), turns.first(batch["values"])
        found = self._estimate(rewards, values, turns.cu_seqlens, torch.ones_like(values, dtype=torch.bool), self.options.lam)
        return turns.spread(found[0]), turns.spread(found[1])

    def _estimate(
        self,
        rewards: torch.Tensor,
        values: torch.Tensor,
        cu_seqlens: torch.Tensor,
        mask: torch.Tensor,
        lam: float | torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gamma, lam_value = self.options.gamma, self.options.lam_value
        critic_lam = self.options.lam if lam_value is None else lam_value
        advantages, returns = gae(rewards, values, cu_seqlens, mask, gamma=gamma, lam=lam)
        if isinstance(lam, torch.Tensor) or critic_lam != lam:
            returns = gae(rewards, values, cu_seqlens, mask, gamma=gamma, lam=critic_lam)[1]
        return advantages, returns

    def _policy_lam(self, lengths: torch.Tensor) -> float | torch.Tensor:
        """[S] lengths -> lambda, one for all or float64 [S]."""
        alpha = self.options.length_adaptive_alpha
        if alpha is None:
            return self.options.lam
        return (1 - 1 / (alpha * lengths.double().clamp(min=1))).clamp(min=0)
