"""On-policy distillation as an advantage: the reverse KL of the student to the teacher, from the sampled token (2306.13649 §3, 2601.02780).

N tokens of a packed batch; m_t is its `loss_mask`, and j runs over the tokens of t's own sequence.

    k_t = log teacher_t - log pi_old_t
    A_t = coef · sum_(j >= t) discount^(j - t) m_j k_j + base_coef · base_t        (discount 0: coef · k_t)

Constant in the policy's weights: with -A_t · ratio_t as the loss the gradient is that of KL(pi || teacher), of the next token alone for
discount 0, of the whole rest of the sequence for 1.

Where this differs from other systems:
1. log pi_old is the trainer's at the start of the step; Tinker takes the sampler's, prime-rl that of the forward pass in progress.
2. Positions outside the mask (a tool's tokens) count in the exponent j - t and add nothing.
3. The sum is not divided by its length; nothing is centred (`algorithm.advantage_norm` does that).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.segments import discounted_suffix_sum
from core_rl.plugins.build import build

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import Advantage
    from core_rl_distill.config import DistillConfig


class Distill:
    """An advantage."""

    def __init__(self, options: DistillConfig) -> None:
        self.options = options
        self.base: Advantage | None = None if options.base is None else build(options.base)

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        options, mask = self.options, batch.loss_mask
        log_ratio = (batch["teacher_logprobs"] - batch["old_logprobs"]).where(mask, 0.0)
        future = discounted_suffix_sum(log_ratio, batch.cu_seqlens, options.discount, mask)
        found = {} if self.base is None else dict(self.base(batch))
        of_rewards = options.base_coef * found["advantages"] if found else 0.0
        return found | {"advantages": (options.coef * future + of_rewards).where(mask, 0.0)}


class Zero:
    """An advantage for losses that read none: 0 everywhere."""

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
        return {"advantages": torch.zeros(batch.num_tokens, device=batch.tokens.device)}
