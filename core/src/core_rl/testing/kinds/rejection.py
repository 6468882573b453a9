"""Checks of rejections: `core_rl.roles.scoring.Rejection`. N tokens, S sequences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from core_rl.roles.scoring import Verdict
from core_rl.testing.kinds.batches import SEEDS, batch_for, declared, empty, left_alone, noisy, other_order, relabelled
from core_rl.testing.kit.check import checks, expect, shown

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.testing.kit.subject import Subject


def per_token(subject: Subject) -> None:
    """Its verdict is `keep` [N] bool, and `weights` [N] float32 or None."""
    batch = _batch(subject, 0)
    verdict = _call(subject, batch)
    expect(isinstance(verdict, Verdict), f"it gives {shown(verdict)}, expected a core_rl.roles.scoring.Verdict")
    shape = (batch.num_tokens,)
    expect(verdict.keep.shape == shape, f"keep has the shape {tuple(verdict.keep.shape)}, expected {shape}: one per token")
    expect(verdict.keep.dtype == torch.bool, f"keep is {verdict.keep.dtype}, expected torch.bool")
    if verdict.weights is not None:
        expect(verdict.weights.shape == shape, f"weights have the shape {tuple(verdict.weights.shape)}, expected {shape}")
        expect(verdict.weights.dtype == torch.float32, f"weights are {verdict.weights.dtype}, expected torch.float32")
        expect(not verdict.weights.requires_grad, "weights carry a gradient: detach them")


def finite(subject: Subject) -> None:
    """Weights in the mask are finite and not negative, and metrics are finite: for log-ratios of ±50 and ±1e4 too."""
    batch = _batch(subject, 0)
    for shift in (0.0, 50.0, -50.0, 1e4, -1e4):
        far = {"rollout_logprobs": (batch["rollout_logprobs"] + shift).where(batch.loss_mask, 0.0)}
        _expect_sound(subject, batch.with_tokens(**far), f"log-ratios of {-shift:g}")
    _expect_sound(subject, batch.select([0]), "one sequence")


def empty_mask(subject: Subject) -> None:
    """A batch without a token in `loss_mask` is judged too: another rejection may have taken all."""
    _expect_sound(subject, empty(_batch(subject, 0)), "an empty mask")


def any_order(subject: Subject) -> None:
    """Sequences and groups in another order, and groups by other numbers, get the same verdict."""
    for seed in SEEDS:
        batch = _batch(subject, seed)
        verdict, order = _call(subject, batch), other_order(batch)
        where = batch.token_indices(order)
        _expect_same(_call(subject, batch.select(order)), verdict, batch.loss_mask[where], where, "in another order")
        whole = torch.arange(batch.num_tokens)
        _expect_same(_call(subject, relabelled(batch)), verdict, batch.loss_mask, whole, "with other group numbers")


def masked_tokens(subject: Subject) -> None:
    """What stands outside `loss_mask` changes no verdict inside."""
    for seed in SEEDS:
        batch = _batch(subject, seed)
        whole = torch.arange(batch.num_tokens)
        _expect_same(
            _call(subject, noisy(batch)), _call(subject, batch), batch.loss_mask, whole, "with other numbers outside loss_mask"
        )


def same_again(subject: Subject) -> None:
    """The same batch gets the same verdict, from the same object and from another one."""
    batch, one = _batch(subject, 1), subject.build()
    first, whole = one(batch), torch.arange(batch.num_tokens)
    for what, again in (("judged again", one), ("judged by an object built anew", subject.build())):
        _expect_same(again(batch), first, batch.loss_mask, whole, what)


def leaves_the_batch_alone(subject: Subject) -> None:
    """Nothing is written into the batch."""
    batch = _batch(subject, 2)
    with left_alone(batch):
        _call(subject, batch)


def use(subject: Subject) -> None:
    """Once, as a loop does."""
    _call(subject, _batch(subject, 0))


def _batch(subject: Subject, seed: int) -> PackedBatch:
    return batch_for(subject.needs, seed)


def _call(subject: Subject, batch: PackedBatch) -> Verdict:
    with declared(subject.needs):
        verdict: Verdict = subject.build()(batch)
    return verdict


def _expect_sound(subject: Subject, batch: PackedBatch, what: str) -> None:
    verdict = _call(subject, batch)
    if verdict.weights is not None:
        weights = verdict.weights[batch.loss_mask & verdict.keep]
        sound = weights.isfinite().all() and (weights >= 0).all()
        expect(sound, f"{what}: weights are {shown(weights.tolist())}, expected finite ones from 0 on")
    for name, value in verdict.metrics.items():
        expect(math.isfinite(float(value)), f"{what}: the metric {name} is {value}; leave out what has no value")


def _expect_same(mine: Verdict, theirs: Verdict, mask: torch.Tensor, where: torch.Tensor, what: str) -> None:
    expect(torch.equal(mine.keep[mask], theirs.keep[where][mask]), f"the batch {what}: other tokens are kept")
    expect(
        (mine.weights is None) == (theirs.weights is None), f"the batch {what}: it has weights, or none, as it has not before"
    )
    if mine.weights is not None and theirs.weights is not None:
        close = torch.allclose(mine.weights[mask], theirs.weights[where][mask], rtol=1e-4, atol=1e-6)
        expect(close, f"the batch {what}: tokens have other weights")


CHECKS = checks(per_token, finite, empty_mask, any_order, masked_tokens, same_again, leaves_the_batch_alone)
