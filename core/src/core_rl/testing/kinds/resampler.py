"""Checks of resamplers: `core_rl.roles.scoring.Resampler`. S sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core_rl.testing.kinds.batches import SEEDS, batch_for, declared, empty, left_alone
from core_rl.testing.kit.check import checks, expect, shown

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.testing.kit.subject import Subject


def indices(subject: Subject) -> None:
    """It gives a list of integers from 0 to S - 1, at least one, and the batch of them is a batch."""
    for seed in SEEDS:
        batch = _batch(subject, seed)
        chosen: Any = _call(subject, batch, seed)
        expect(isinstance(chosen, list) and chosen, f"it gives {shown(chosen)}, expected a list of indices of sequences")
        whole = all(isinstance(index, int) and 0 <= index < batch.num_sequences for index in chosen)
        expect(whole, f"it gives {shown(chosen)}, expected integers from 0 to {batch.num_sequences - 1}")


def same_seed(subject: Subject) -> None:
    """The same seed draws the same sequences, from the same object and from another one; global random states do not matter."""
    batch, one = _batch(subject, 0), subject.build()
    first = one(batch, 7)
    expect(first == one(batch, 7), "a second call with the same seed draws other sequences")
    expect(first == subject.build()(batch, 7), "an object built anew draws other sequences with the same seed")


def edges(subject: Subject) -> None:
    """A batch of one sequence, and one without a token in the mask, are drawn from too."""
    batch = _batch(subject, 0)
    expect(set(_call(subject, batch.select([0]), 1)) <= {0}, "a batch of one sequence has the index 0 alone")
    chosen = _call(subject, empty(batch), 1)
    expect(all(0 <= index < batch.num_sequences for index in chosen), f"an empty mask gives {shown(chosen)}")


def leaves_the_batch_alone(subject: Subject) -> None:
    """Nothing is written into the batch."""
    batch = _batch(subject, 2)
    with left_alone(batch):
        _call(subject, batch, 1)


def use(subject: Subject) -> None:
    """Once."""
    _call(subject, _batch(subject, 0), 1)


def _batch(subject: Subject, seed: int) -> PackedBatch:
    return batch_for(subject.needs | {"advantages"}, seed)


def _call(subject: Subject, batch: PackedBatch, seed: int) -> list[int]:
    with declared(subject.needs):
        chosen: list[int] = subject.build()(batch, seed)
    return chosen


CHECKS = checks(indices, same_seed, edges, leaves_the_batch_alone)
