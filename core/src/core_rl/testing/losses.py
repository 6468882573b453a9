"""What must hold of every loss, for the tests of plugins: it equals a reference, stays finite, and does not depend on the split.

A reference computes one sequence, token by token, in float64: it gets a mapping of names to lists of scalar tensors (the tokens in the
mask; `logprobs`, `new_values` and `new_entropy` carry gradients) and of floats (fields of the sequence), and returns the loss of each token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from core_rl.config.algorithm import KlConfig
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective import PolicyObjective
from core_rl.objective_extras import before_step
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.invariance import gradient

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.numerics.names import Aggregation
    from core_rl.roles.scoring import Loss

Reference = Callable[[Mapping[str, Any]], Sequence[torch.Tensor]]
_LEAVES = ("logprobs", "new_values", "new_entropy")


def value_and_gradient(loss: Loss, batch: PackedBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """[N] values and [N] gradient of their sum over the mask by `logprobs`; 0 outside the mask."""
    batch = before_step(loss, batch)
    logprobs = batch["logprobs"].clone().requires_grad_()
    values = loss(logprobs, batch).values.where(batch.loss_mask, 0.0)
    if not values.requires_grad:
        return values, torch.zeros_like(logprobs)
    (grad,) = torch.autograd.grad(values.sum(), logprobs)
    return values.detach(), grad


def reference_value_and_gradient(reference: Reference, batch: PackedBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of a reference, sequence by sequence."""
    values, grads = torch.zeros(batch.num_tokens).double(), torch.zeros(batch.num_tokens).double()
    bounds = batch.cu_seqlens.tolist()
    for index in range(batch.num_sequences):
        where = [t for t in range(bounds[index], bounds[index + 1]) if batch.loss_mask[t]]
        row: dict[str, Any] = {name: [field[t].double() for t in where] for name, field in batch.token_fields.items()}
        row |= {name: float(field[index]) for name, field in batch.sequence_fields.items()}
        leaves = [value.clone().requires_grad_() for value in row["logprobs"]]
        row["logprobs"] = leaves
        if not where:
            continue
        losses = torch.stack([loss + 0 * leaf for loss, leaf in zip(reference(row), leaves, strict=True)])
        found = torch.autograd.grad(losses.sum(), leaves)
        for t, value, slope in zip(where, losses, found, strict=True):
            values[t], grads[t] = value.detach(), slope
    return values, grads


def assert_equals_reference(loss: Loss, reference: Reference, *, seeds: Sequence[int] = range(4), spread: float = 0.6) -> None:
    """By value and gradient in float64, on ragged batches with a wholly masked sequence."""
    for seed in seeds:
        batch = in_double(random_batch(seed, num_groups=6, spread=spread))
        prepared = before_step(loss, batch)
        found, expected = value_and_gradient(loss, batch), reference_value_and_gradient(reference, prepared)
        for what, mine, theirs in zip(("value", "gradient"), found, expected, strict=True):
            assert torch.allclose(mine, theirs, rtol=1e-9, atol=1e-12), f"{what}, seed {seed}: {mine} is not {theirs}"


def assert_finite(loss: Loss) -> None:
    """In float32, at log-ratios of ±50 and ±1e4 to every other policy, at probability 1, and for an empty mask."""
    batch = random_batch(0, num_groups=3)
    for shift in (50.0, -50.0, 1e4, -1e4):
        far = dict.fromkeys(("old_logprobs", "rollout_logprobs", "ref_logprobs", "teacher_logprobs"), batch["logprobs"] + shift)
        _assert_finite(loss, batch.with_tokens(**far), f"log-ratios of {-shift:g}")
    certain = {name: torch.zeros(batch.num_tokens) for name in ("logprobs", "old_logprobs", "rollout_logprobs")}
    _assert_finite(loss, batch.with_tokens(**certain), "probability 1")
    _assert_finite(loss, batch.with_loss_mask(torch.zeros_like(batch.loss_mask)), "an empty mask")
    _assert_finite(loss, batch.select([0]), "one sequence")


def _assert_finite(loss: Loss, batch: PackedBatch, what: str) -> None:
    values, grad = value_and_gradient(loss, batch)
    assert values.isfinite().all(), f"{what}: {values}"
    assert grad.isfinite().all(), f"{what}: {grad}"


def assert_same_for_any_split(
    loss: Loss, seed: int, ranks: Sequence[Sequence[Sequence[int]]], *, aggregation: Aggregation = "token-mean"
) -> None:
    """One rank with one micro-batch, and these ranks with these micro-batches: equal loss, gradient and metrics."""
    batch = random_batch(seed)
    objective, weights = PolicyObjective(loss, kl=KlConfig()), Aggregator(aggregation, scale_length=12)
    whole, cut = gradient(objective, weights, batch), gradient(objective, weights, batch, ranks)
    # not to the bit: vectorised exponentials round the last places by where a number stands
    assert torch.allclose(cut.logprobs, whole.logprobs, rtol=1e-5, atol=1e-9)
    assert abs(cut.loss - whole.loss) <= 1e-4 * abs(whole.loss) + 1e-5
    assert cut.metrics.keys() == whole.metrics.keys()
    for name, value in whole.metrics.items():
        assert abs(cut.metrics[name] - value) <= 1e-4 * abs(value) + 1e-5, name


def assert_same_in_any_order(loss: Loss, seed: int, order: Sequence[int], *, aggregation: Aggregation = "token-mean") -> None:
    """The same sequences packed in another order: the gradient of a token goes along with it."""
    batch = random_batch(seed)
    objective, weights = PolicyObjective(loss, kl=KlConfig()), Aggregator(aggregation, scale_length=12)
    whole, packed = (gradient(objective, weights, one) for one in (batch, batch.select(order)))
    assert torch.allclose(packed.logprobs, whole.logprobs[batch.token_indices(order)], rtol=1e-5, atol=1e-9)


def random_split(random: Any, sequences: int, ranks: int) -> list[list[list[int]]]:
    """Sequences over ranks, and each rank's over micro-batches, in any order; some ranks may have nothing."""
    order = list(range(sequences))
    random.shuffle(order)
    result: list[list[list[int]]] = [[] for _ in range(ranks)]
    while order:
        size = random.randint(1, 4)
        result[random.randrange(ranks)].append(order[:size])
        order = order[size:]
    return result
