"""Losses and their like that the training loop could not call."""

from __future__ import annotations

import torch

from core_rl.data.batch import PackedBatch
from core_rl.roles.scoring import Advantage, KlEstimator, Loss, Normaliser, Rejection, Resampler
from core_rl.roles.train import Aggregation, LossOutput


class WithoutBatch:
    def __call__(self, logprobs: torch.Tensor) -> LossOutput:
        return LossOutput(values=logprobs, metrics={})


class Averaged:
    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        return logprobs[batch.loss_mask].mean()


class NoCall:
    def forward(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        return LossOutput(values=logprobs, metrics={})


class OneTensor:
    def __call__(self, batch: PackedBatch) -> torch.Tensor:
        return batch["rewards"]


class WithoutGroup:
    def __call__(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return values.where(mask, 0.0)


class Called:
    def __call__(self, batch: PackedBatch) -> torch.Tensor:
        return batch.loss_mask.float()


class ThreePolicies:
    def __call__(self, logprobs: torch.Tensor, ref_logprobs: torch.Tensor, old_logprobs: torch.Tensor) -> torch.Tensor:
        return logprobs - ref_logprobs + old_logprobs


class MaskAlone:
    def __call__(self, batch: PackedBatch) -> torch.Tensor:
        return batch.loss_mask


class WithoutSeed:
    def __call__(self, batch: PackedBatch) -> list[int]:
        return [0] * batch.num_sequences


first: Loss = WithoutBatch()  # E: expression has type "WithoutBatch", variable has type "Loss"
second: Loss = Averaged()  # E: expression has type "Averaged", variable has type "Loss"
third: Loss = NoCall()  # E: expression has type "NoCall", variable has type "Loss"
advantage: Advantage = OneTensor()  # E: variable has type "Advantage"
normaliser: Normaliser = WithoutGroup()  # E: variable has type "Normaliser"
aggregation: Aggregation = Called()  # E: variable has type "Aggregation"
estimator: KlEstimator = ThreePolicies()  # E: variable has type "KlEstimator"
rejection: Rejection = MaskAlone()  # E: variable has type "Rejection"
resampler: Resampler = WithoutSeed()  # E: variable has type "Resampler"

LossOutput(values=torch.zeros(1))  # E: Missing named argument "metrics"
LossOutput(values=torch.zeros(1), metrics={"ratio": torch.zeros(1)})  # E: expected "str": "tuple[Tensor, Tensor]"
