"""Batches for the parts of an algorithm that make or change them, and what is done to a batch that must change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
import torch

from core_rl.testing.batches import random_batch
from core_rl.testing.kit.check import UnmetError, expect

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch

SEEDS = range(3)
_ALWAYS = frozenset({"generated", "versions", "rollout_logprobs", "truncated", "rewards", "raw_rewards", "group"})
"""What sampled sequences have before any forward pass."""
_BY_NEED = {
    "old_logprobs": ("old_logprobs",),
    "ref_logprobs": ("ref_logprobs",),
    "teacher_logprobs": ("teacher_logprobs",),
    "entropy": ("entropy",),
    "values": ("values",),
    "advantages": ("advantages",),
    "greedy_rewards": ("greedy_rewards",),
}


def batch_for(needs: frozenset[str], seed: int) -> PackedBatch:
    """Four groups of ragged sequences: the fields that sampling gives, and those that `needs` adds. Rewards are 0 or 1."""
    whole = random_batch(seed, num_groups=4, group_size=4)
    random = torch.Generator().manual_seed(seed + 77)
    sizes = whole["group"].bincount()
    rewards = (torch.rand(whole.num_sequences, generator=random) < 0.5).float()
    greedy = (torch.rand(sizes.numel(), generator=random) < 0.5).float()[whole["group"]]
    parts = {f"rewards/{name}": torch.rand(whole.num_sequences, generator=random) for name in ("first", "second")}
    weights = {f"reward_weights/{name}": torch.ones(whole.num_sequences) for name in ("first", "second")}
    whole = whole.with_sequences(rewards=rewards, raw_rewards=rewards, greedy_rewards=greedy, **parts, **weights)
    names = _ALWAYS.union(*(_BY_NEED.get(need, ()) for need in needs))
    kept = {name: value for name, value in whole.sequence_fields.items() if name in names or "/" in name}
    return attrs.evolve(
        whole, token_fields={name: x for name, x in whole.token_fields.items() if name in names}, sequence_fields=kept
    )


def empty(batch: PackedBatch) -> PackedBatch:
    """Nothing is left to learn from."""
    return batch.with_loss_mask(torch.zeros_like(batch.loss_mask))


def other_order(batch: PackedBatch) -> list[int]:
    """The sequences, groups and within groups, the other way round."""
    return list(range(batch.num_sequences))[::-1]


def relabelled(batch: PackedBatch) -> PackedBatch:
    """Groups with other numbers."""
    return batch.with_sequences(group=(batch["group"].max() - batch["group"]) * 3 + 5)


def noisy(batch: PackedBatch) -> PackedBatch:
    """Other numbers wherever `loss_mask` is false."""
    random = torch.Generator().manual_seed(5)

    def other(value: torch.Tensor) -> torch.Tensor:
        return value.where(batch.loss_mask, -3 * torch.rand(value.shape, generator=random))

    return batch.with_tokens(**{name: other(value) for name, value in batch.token_fields.items() if value.is_floating_point()})


def close(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    """But for the rounding of float32 sums in another order."""
    return torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def copies(batch: PackedBatch) -> dict[str, torch.Tensor]:
    layout = {
        "tokens": batch.tokens,
        "cu_seqlens": batch.cu_seqlens,
        "positions": batch.positions,
        "loss_mask": batch.loss_mask,
    }
    return {name: value.clone() for name, value in {**layout, **batch.token_fields, **batch.sequence_fields}.items()}


def written(batch: PackedBatch, before: dict[str, torch.Tensor]) -> list[str]:
    """The fields that are no longer what they were."""
    return [
        name
        for name, value in copies(batch).items()
        if not torch.equal(torch.nan_to_num(value), torch.nan_to_num(before[name]))
    ]


@contextmanager
def left_alone(batch: PackedBatch) -> Iterator[None]:
    """What is done inside must write nothing into the batch."""
    before = copies(batch)
    yield
    changed = written(batch, before)
    expect(not changed, f"it writes into {', '.join(changed)}: compute new tensors")


@contextmanager
def declared(needs: frozenset[str]) -> Iterator[None]:
    """A field that is read and not there, in words."""
    try:
        yield
    except KeyError as error:
        if "the batch has no" not in str(error):
            raise
        field = str(error).split("'")[1]
        message = f"it reads {field!r}, which is not in every batch: declare what gives it in `needs` of the component (now {sorted(needs)})"
        raise UnmetError(message) from error
