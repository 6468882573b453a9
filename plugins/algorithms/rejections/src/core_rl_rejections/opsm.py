"""Off-policy sequence masking (DeepSeek-V3.2, 2512.02556, §3.1).

A sequence counts 0 iff its advantage is negative and the mean over its tokens of (log q - log p) > delta: what is pushed away should at
least be what the policy itself would write. A sequence whose tokens have advantages of both signs is judged by their mean.

                    p                                   q
    rejection opsm  pi_old: once, before training       mu
    loss opsm       pi: at every optimizer step         mu, or pi_old      (`against`)

The paper's is the loss, against mu: its divergence has the mismatch of the engines and the updates within a batch in it. The rejection is the same
for a batch that is one optimizer step. A sequence held back stays in the denominators, as in the paper and in TRL; `action: mask` of the
rejection takes it out of them.

Where others differ: slime compares pi_old with pi, delta 1e-4: `against: old`; TRL (off_policy_mask_threshold) compares mu with pi, and has no default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from core_rl.numerics.segments import broadcast, segment_mean
from core_rl.objective_extras import before_step, sums
from core_rl.plugins.build import build
from core_rl_rejections._report import held_back

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import Loss, Verdict
    from core_rl.roles.train import LossOutput
    from core_rl_rejections.config import OpsmConfig, OpsmLossConfig


class Opsm:
    """A rejection."""

    def __init__(self, options: OpsmConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Verdict:
        keep = _near(batch["old_logprobs"], batch["rollout_logprobs"], batch, self.options.delta)
        return held_back("opsm", keep, batch, self.options.action)


class OpsmLoss:
    """A loss: another one, without the sequences that are held back."""

    def __init__(self, options: OpsmLossConfig) -> None:
        self.loss: Loss = build(options.of)
        self.delta = options.delta
        self.other = "rollout_logprobs" if options.against == "rollout" else "old_logprobs"
        self.unit: Any = getattr(self.loss, "unit", "sequence")

    def before_step(self, batch: PackedBatch) -> PackedBatch:
        return before_step(self.loss, batch)

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        output = self.loss(logprobs, batch)
        keep = _near(logprobs.detach(), batch[self.other], batch, self.delta)
        metrics = {**output.metrics, **sums({"opsm/dropped_frac": (~keep).float()}, batch.loss_mask)}
        return attrs.evolve(output, values=output.values.masked_fill(~keep, 0.0), metrics=metrics)


def _near(log_p: torch.Tensor, log_q: torch.Tensor, batch: PackedBatch, delta: float) -> torch.Tensor:
    """[N] bool: not of a sequence with A < 0 and mean(log q - log p) > delta."""
    divergence = segment_mean(log_q - log_p, batch.cu_seqlens, batch.loss_mask)
    advantage = segment_mean(batch["advantages"], batch.cu_seqlens, batch.loss_mask)
    return broadcast(~((advantage < 0) & (divergence > delta)), batch.cu_seqlens, batch.num_tokens)
