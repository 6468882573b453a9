from __future__ import annotations

import torch

from core_rl.data.batch import PackedBatch
from core_rl.numerics.ratios import ratios
from core_rl.roles.train import LossOutput

from .config import TemperedConfig


class Tempered:
    def __init__(self, options: TemperedConfig) -> None:
        self.options = options

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        beta = self.options.beta
        distance = ratios(logprobs, batch["old_logprobs"], batch).clamp(max=self.options.cap.ratio) - 1
        squashed = torch.tanh(beta * distance) / beta
        if self.options.sides == "upper":
            squashed = torch.where(distance > 0, squashed, distance)
        lost = ((distance - squashed).abs().detach() * batch.loss_mask).sum()
        return LossOutput(values=-batch["advantages"] * squashed, metrics={"tempered/lost": (lost, batch.loss_mask.sum())})
