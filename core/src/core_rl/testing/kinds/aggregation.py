"""Checks of aggregations: `core_rl.roles.train.Aggregation`. N tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.testing.kinds.batches import SEEDS, batch_for, declared, empty, left_alone, noisy, relabelled
from core_rl.testing.kit.check import checks, expect, shown

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.testing.kit.subject import Subject


def per_token(subject: Subject) -> None:
    """It gives a float32 weight for every token, [N]: finite, not negative, 0 outside `loss_mask`, and not 0 everywhere."""
    for seed in SEEDS:
        batch = batch_for(subject.needs, seed)
        weights = _weights(subject, batch)
        count = batch.num_tokens
        expect(weights.shape == (count,), f"weights have the shape {tuple(weights.shape)}, expected [{count}]")
        expect(weights.dtype == torch.float32, f"weights are {weights.dtype}, expected torch.float32")
        expect((weights[~batch.loss_mask] == 0).all(), "a token outside loss_mask has a weight, expected 0")
        sound = weights.isfinite().all() and (weights >= 0).all()
        expect(sound, f"weights are {shown(weights.tolist())}, expected finite ones from 0 on")
        expect(weights.sum() > 0, "every weight is 0: nothing would be learnt")


def empty_mask(subject: Subject) -> None:
    """A batch without a token in `loss_mask` has weights of 0, not NaN."""
    weights = _weights(subject, empty(batch_for(subject.needs, 0)))
    expect((weights == 0).all(), f"weights are {shown(weights.tolist())}, expected 0")


def other_numbers(subject: Subject) -> None:
    """Weights follow from the layout alone: not from what stands outside the mask, nor from the numbers that groups have."""
    for seed in SEEDS:
        batch = batch_for(subject.needs, seed)
        weights = _weights(subject, batch)
        expect(torch.equal(weights, _weights(subject, noisy(batch))), "weights depend on numbers outside loss_mask")
        expect(torch.equal(weights, _weights(subject, relabelled(batch))), "weights depend on the numbers of groups")


def same_again(subject: Subject) -> None:
    """The same batch has the same weights, and nothing is written into it."""
    batch = batch_for(subject.needs, 1)
    one = subject.build()
    with left_alone(batch):
        first = one.weights(batch).clone()
        expect(torch.equal(first, one.weights(batch)), "a second call gives other weights")
        expect(torch.equal(first, subject.build().weights(batch)), "an object built anew gives other weights")


def use(subject: Subject) -> None:
    """Once."""
    _weights(subject, batch_for(subject.needs, 0))


def _weights(subject: Subject, batch: PackedBatch) -> torch.Tensor:
    with declared(subject.needs):
        weights: torch.Tensor = subject.build().weights(batch)
    return weights


CHECKS = checks(per_token, empty_mask, other_numbers, same_again)
