"""CISPO: clipped importance-sampling weights, unclipped gradients (MiniMax-M1, 2506.13585, eq. 4).

With r_t = pi(t) / pi_old(t),

    l_t = -sg(clip(r_t, low, high)) (A_t - tau sg(log r_t)) log pi(t)

`bounds` relative: low = 1 - clip_low, high = 1 + clip_high. absolute: clip_low and clip_high themselves. The paper has no lower bound and
tunes the upper one, and has tau 0.

How others state theirs:
1. TRL: min(r, epsilon_high), 5 recommended: bounds absolute, clip_high 5.
2. SkyRL and ART: clip_low 1, clip_high 4: weights in [0, 5], the default here. ART's kimi_k2_tau is tau.
3. verl, slime, NeMo-RL, AReaL: relative, 0.2 and 0.2 unless told. ROLL: relative, 0.1 and 0.1. tinker and ScaleRL (2510.13786): absolute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.ratios import log_ratios, ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_cispo.config import CispoConfig


class Cispo:
    """A loss."""

    def __init__(self, options: CispoConfig) -> None:
        self.low, self.high, self.tau = options.low, options.high, options.tau

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        current, old, advantages = logprobs.detach(), batch["old_logprobs"], batch["advantages"]
        ratio = ratios(current, old, batch)
        weight = ratio.clamp(self.low, self.high)
        if self.tau:
            advantages = advantages - self.tau * log_ratios(current, old, batch)
        values = -weight * advantages * logprobs
        return LossOutput(values=values, metrics=sums({"ratio/clip_frac": (weight != ratio).float()}, batch.loss_mask))
