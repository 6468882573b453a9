"""Generalised advantage estimation over packed sequences (1506.02438).

N tokens. Over the tokens in the mask of one sequence, taken as consecutive time steps t = 1..L,

    delta_t = r_t + gamma V_{t+1} - V_t        with V_{L+1} = 0
    A_t     = delta_t + gamma lambda A_{t+1}   with A_{L+1} = 0
    R_t     = A_t + V_t

Tokens outside the mask (prompt, tool output) are no time steps: the value and the advantage of what follows are carried over
them undiscounted, as in verl and NeMo-RL. Rewards and values that stand there are not read, and both results are 0 there.
"""

from __future__ import annotations

import torch

from core_rl.numerics.segments import discounted_suffix_sum, segment_count


def gae(
    rewards: torch.Tensor,
    values: torch.Tensor,
    cu_seqlens: torch.Tensor,
    mask: torch.Tensor,
    *,
    gamma: float = 1.0,
    lam: float | torch.Tensor = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """[N], [N] -> advantages [N] and returns [N], without gradient; computed in float64, returned in the dtype of `values`.

    `lam` may be one of each sequence [S].
    """
    steps = mask.nonzero().squeeze(-1)
    counts = segment_count(mask, cu_seqlens)
    bounds = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    value = values.detach()[steps].double()
    following = torch.cat([value[1:], value.new_zeros(1)])[: value.numel()]
    following[bounds[1:][counts > 0] - 1] = 0.0
    delta = rewards.detach()[steps].double() + gamma * following - value
    advantage = discounted_suffix_sum(delta, bounds, gamma * lam)
    return _scatter(advantage, steps, values), _scatter(advantage + value, steps, values)


def _scatter(compact: torch.Tensor, steps: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    full = torch.zeros_like(like, requires_grad=False)
    full[steps] = compact.to(like.dtype)
    return full
