"""What a critic minimises (1707.06347; clipped as in OpenAI's baselines; Huber as an option).

N tokens. With V_t = `new_values`, V_old `values` and R_t `returns` of the batch, inside the mask,

    l_t = max(f(V_t - R_t), f(clip(V_t, V_old ± clip) - R_t))
    f(e) = e^2 / 2,  or delta (|e| - delta / 2) where |e| > delta      (huber_delta)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.objective_extras import sums, with_outputs
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.config.algorithm import CriticConfig
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import PolicyOutputs, Unit


class ValueLoss:
    """A loss, of the fresh values in the batch: the extra loss of a policy with a value head."""

    def __init__(self, options: CriticConfig) -> None:
        self.clip = options.clip
        self.delta = options.huber_delta

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        del logprobs
        values, old, returns = batch["new_values"], batch["values"], batch["returns"]
        loss = self._error(values - returns)
        clipped = torch.zeros_like(batch.loss_mask)
        if self.clip is not None:
            bounded = self._error(torch.clamp(values, old - self.clip, old + self.clip) - returns)
            clipped = bounded > loss
            loss = torch.maximum(loss, bounded)
        terms = {
            "critic/loss": loss,
            "critic/clip_frac": clipped.float(),
            "critic/value_mean": values,
            "critic/return_mean": returns,
            "critic/error_abs": (values - returns).abs(),
        }
        return LossOutput(values=loss, metrics=sums(terms, batch.loss_mask))

    def _error(self, error: torch.Tensor) -> torch.Tensor:
        if self.delta is None:
            return error.square() / 2
        return torch.nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none", delta=self.delta)


class ValueObjective:
    """A `core_rl.roles.train.Objective` for a critic with a model of its own."""

    entropy_grad = False
    unit: Unit = "sequence"

    def __init__(self, options: CriticConfig) -> None:
        self.loss = ValueLoss(options)

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        output = self.loss(outputs.logprobs, with_outputs(batch, outputs))
        return LossOutput(values=output.values.where(batch.loss_mask, 0.0), metrics=output.metrics)
