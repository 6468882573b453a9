"""Losses and all that stands around them. N tokens, S sequences, K gathered."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from core_rl.data.batch import PackedBatch
from core_rl.numerics.ratios import ratios
from core_rl.roles.scoring import Advantage, Forward, KlEstimator, Loss, Normaliser, Rejection, Resampler, Verdict
from core_rl.roles.train import Aggregation, LossOutput, Unit


class MyLoss:
    """With metrics, maxima and the attributes that a loss may have."""

    unit: Unit = "group"
    needs = frozenset({"rollout_logprobs"})

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        ratio = ratios(logprobs, batch["old_logprobs"], batch)
        mask = batch.loss_mask
        metrics = {"ratio/mean": (ratio.detach().where(mask, 0.0).sum(), mask.sum())}
        return LossOutput(values=-ratio * batch["advantages"], metrics=metrics, maxima={"ratio/abs_max": ratio.detach().max()})

    def before_step(self, batch: PackedBatch) -> PackedBatch:
        return batch.with_tokens(mine=torch.zeros(batch.num_tokens))

    def mask(self, batch: PackedBatch) -> torch.Tensor:
        return batch.loss_mask


class OfflineLoss:
    """One that asks the model before training."""

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        return LossOutput(values=-logprobs, metrics={})

    def prepare(self, batch: PackedBatch, forward: Forward) -> PackedBatch:
        return batch.with_tokens(start=forward(batch), reference=forward(batch, "reference"))


def plain_loss(logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
    """A function has the same signature."""
    return LossOutput(values=-logprobs * batch["advantages"], metrics={})


class MyAdvantage:
    def __call__(self, batch: PackedBatch) -> dict[str, torch.Tensor]:
        return {"advantages": batch["rewards"][batch.sequence_ids]}


class MyNormaliser:
    def __call__(self, values: torch.Tensor, group: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (values - values[mask].mean()).where(mask & (group >= 0), 0.0)


class MyAggregation:
    def weights(self, batch: PackedBatch) -> torch.Tensor:
        return batch.loss_mask.float() / batch.loss_mask.sum()


class MyEstimator:
    def __call__(self, logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
        return logprobs - ref_logprobs


class MyRejection:
    def __call__(self, batch: PackedBatch) -> Verdict:
        metrics: Mapping[str, float] = {"mine/kept": 1.0}
        return Verdict(keep=batch.loss_mask, weights=batch.loss_mask.float(), metrics=metrics)


class MyResampler:
    def __call__(self, batch: PackedBatch, seed: int) -> list[int]:
        return [seed % batch.num_sequences]


losses: list[Loss] = [MyLoss(), OfflineLoss(), plain_loss]
advantage: Advantage = MyAdvantage()
normaliser: Normaliser = MyNormaliser()
aggregation: Aggregation = MyAggregation()
estimator: KlEstimator = MyEstimator()
rejection: Rejection = MyRejection()
resampler: Resampler = MyResampler()
