"""Checks of advantages: `core_rl.roles.scoring.Advantage`. N tokens, S sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from core_rl.testing.kinds.batches import (
    SEEDS,
    batch_for,
    close,
    declared,
    empty,
    left_alone,
    noisy,
    other_order,
    relabelled,
)
from core_rl.testing.kit.check import checks, expect, shown

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.testing.kit.subject import Subject


def per_token(subject: Subject) -> None:
    """It gives `advantages` [N] float32, and whatever else it gives is a tensor with one entry for each token."""
    batch, found = _found(subject, 0)
    expect("advantages" in found, f"it gives {sorted(found)}, expected `advantages` among them")
    for name, value in found.items():
        expect(isinstance(value, torch.Tensor), f"{name} is {shown(value)}, expected a tensor [N]")
        count = batch.num_tokens
        expect(
            value.shape[:1] == (count,), f"{name} has the shape {tuple(value.shape)}, expected {count} entries, one per token"
        )
    advantages = found["advantages"]
    expect(advantages.dtype == torch.float32, f"advantages are {advantages.dtype}, expected torch.float32")
    expect(advantages.dim() == 1, f"advantages have the shape {tuple(advantages.shape)}, expected [{batch.num_tokens}]")
    expect(not advantages.requires_grad, "advantages carry a gradient: detach them")


def finite(subject: Subject) -> None:
    """Advantages are finite in the mask: for random rewards, equal ones, large ones, and a batch of one sequence."""
    batch = _batch(subject, 0)
    for what, rewards in (("random", None), ("equal", 0.5), ("large", 1e6)):
        some = batch if rewards is None else _with_rewards(batch, rewards * torch.ones(batch.num_sequences))
        _expect_finite(subject, some, f"{what} rewards")
    _expect_finite(subject, batch.select([0]), "one sequence")


def empty_mask(subject: Subject) -> None:
    """A batch without a token in `loss_mask` has finite advantages too: rejections may have taken all."""
    batch = empty(_batch(subject, 0))
    found = _call(subject, batch)["advantages"]
    expect(found.isfinite().all(), f"advantages are {shown(found.tolist())}, expected finite ones")


def any_order(subject: Subject) -> None:
    """Sequences and groups in another order, and groups by other numbers, have the same advantages."""
    for seed in SEEDS:
        batch, found = _found(subject, seed)
        order = other_order(batch)
        where = batch.token_indices(order)
        for what, changed, expected in (
            ("in another order", batch.select(order), found["advantages"][where]),
            ("with other group numbers", relabelled(batch), found["advantages"]),
        ):
            mine, mask = _call(subject, changed)["advantages"], changed.loss_mask
            worst = float((mine - expected)[mask].abs().max())
            expect(close(mine[mask], expected[mask]), f"the batch {what}: an advantage differs by {worst:.3g}")


def masked_tokens(subject: Subject) -> None:
    """What stands outside `loss_mask` changes no advantage inside."""
    for seed in SEEDS:
        batch, found = _found(subject, seed)
        mine = _call(subject, noisy(batch))["advantages"]
        expect(
            close(mine[batch.loss_mask], found["advantages"][batch.loss_mask]),
            "an advantage depends on a token outside loss_mask",
        )


def same_again(subject: Subject) -> None:
    """The same batch gives the same advantages, from the same object and from another one."""
    batch, one = _batch(subject, 1), subject.build()
    first = one(batch)["advantages"].clone()
    for what, again in (("a second call", one), ("an object built anew", subject.build())):
        expect(torch.equal(first, again(batch)["advantages"]), f"{what} gives other advantages for the same batch")


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


def _call(subject: Subject, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
    with declared(subject.needs):
        found: Mapping[str, torch.Tensor] = subject.build()(batch)
    expect(isinstance(found, Mapping), f"it gives {shown(found)}, expected a mapping with `advantages` [N]")
    return found


def _found(subject: Subject, seed: int) -> tuple[PackedBatch, Mapping[str, torch.Tensor]]:
    batch = _batch(subject, seed)
    return batch, _call(subject, batch)


def _with_rewards(batch: PackedBatch, rewards: torch.Tensor) -> PackedBatch:
    return batch.with_sequences(rewards=rewards, raw_rewards=rewards)


def _expect_finite(subject: Subject, batch: PackedBatch, what: str) -> None:
    found = _call(subject, batch)["advantages"][batch.loss_mask]
    expect(found.isfinite().all(), f"{what}: advantages are {shown(found.tolist())}, expected finite ones")


CHECKS = checks(per_token, finite, empty_mask, any_order, masked_tokens, same_again, leaves_the_batch_alone)
