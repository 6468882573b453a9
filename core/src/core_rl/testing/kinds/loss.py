"""Checks of losses: `core_rl.roles.scoring.Loss`. N tokens, S sequences.

They build the batch themselves: the fields that every loss may read, and those that the component declares in `needs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import torch

from core_rl.testing.kinds.batches import close
from core_rl.testing.kinds.constants import gradient_error
from core_rl.testing.kinds.loss_batches import Case, case, parts, prepared, run
from core_rl.testing.kinds.loss_runs import (
    case_of,
    copies,
    expect_finite,
    expect_same,
    expect_same_metrics,
    gradients,
    is_pair,
    is_scalar,
    result,
    some_places,
    total_by,
    unit_of,
    values_of,
)
from core_rl.testing.kit.check import checks, expect, shown

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject

_SEEDS = range(3)


def per_token(subject: Subject) -> None:
    """It gives a float32 value for every token, [N], and no mean of them."""
    for seed in _SEEDS:
        one = case_of(subject, seed)
        values = result(subject, one).values
        expect(isinstance(values, torch.Tensor), f"values is {shown(values)}, expected a tensor [N]")
        count = one.batch.num_tokens
        words = f"values has the shape {tuple(values.shape)}, expected [{count}]: one per token, never averaged"
        expect(values.shape == (count,), words)
        expect(values.dtype == torch.float32, f"values is {values.dtype} for float32 log-probabilities, expected torch.float32")


def reads_what_is_there(subject: Subject) -> None:
    """It reads the fields that every batch has, and beside them only what its component declares in `needs`."""
    for seed in _SEEDS:
        result(subject, case_of(subject, seed))


def learns(subject: Subject) -> None:
    """Its values carry a gradient to what the forward pass gave."""
    slopes = [slope for seed in _SEEDS for slope in gradients(subject, case_of(subject, seed)).values()]
    expect(
        any(slope.abs().max() > 0 for slope in slopes), "no gradient reaches logprobs or anything else: nothing would be learnt"
    )


def gradient_is_the_slope(subject: Subject) -> None:
    """In float64 its gradient is that of finite differences, with what it detaches held constant."""
    random = torch.Generator().manual_seed(3)
    for seed in (0, 1):
        one = case_of(subject, seed, groups=2, double=True)
        scale = torch.rand(one.batch.num_tokens, generator=random).double().where(one.batch.loss_mask, 0.0)
        for name, at in one.outputs.items():
            error = gradient_error(total_by(subject, one, scale, name), at, some_places(one, at))
            words = f"the gradient by {name} is {error:.3g} away from finite differences, relative to the largest slope"
            expect(error < 1e-4, words)


def finite(subject: Subject) -> None:
    """Values and gradients are finite for log-ratios of ±50 and ±1e4, for certain tokens, for one sequence, and for an empty mask."""
    one = case_of(subject, 0)
    others = [name for name in one.batch.token_fields if name.endswith("_logprobs")]
    for shift in (50.0, -50.0, 1e4, -1e4):
        moved = {name: one.batch[name] + shift for name in others}
        expect_finite(subject, attrs.evolve(one, batch=one.batch.with_tokens(**moved)), f"log-ratios of {-shift:g}")
    certain = {name: torch.zeros_like(value) for name, value in one.outputs.items() if name == "logprobs"}
    expect_finite(subject, attrs.evolve(one, outputs={**one.outputs, **certain}), "probability 1")
    if unit_of(subject) == "sequence":
        expect_finite(subject, one.select([0]), "one sequence", prepare=False)
    empty = one.batch.with_loss_mask(torch.zeros_like(one.batch.loss_mask))
    expect_finite(subject, attrs.evolve(one, batch=empty), "an empty mask")


def any_split(subject: Subject) -> None:
    """Micro-batches and ranks change nothing: values and gradients of tokens, means of metrics."""
    for seed in _SEEDS:
        one = case_of(subject, seed)
        whole, slopes = result(subject, one), gradients(subject, one)
        for size in (1, 2):
            divided = list(parts(one, by_group=unit_of(subject) == "group", size=size))
            outputs = [result(subject, one.select(part)) for part in divided]
            expect_same(one, divided, [values_of(output) for output in outputs], values_of(whole), "the value")
            found = [gradients(subject, one.select(part)) for part in divided]
            for name, slope in slopes.items():
                expect_same(one, divided, [part[name] for part in found], slope, f"the gradient by {name}")
            expect_same_metrics(whole, outputs)


def any_order(subject: Subject) -> None:
    """The sequences of a batch in another order have the same values and gradients."""
    for seed in _SEEDS:
        one = case_of(subject, seed)
        order = [index for part in parts(one, by_group=unit_of(subject) == "group", size=1) for index in part]
        moved = one.select(order)
        expect_same(one, [order], [values_of(result(subject, moved))], values_of(result(subject, one)), "the value")
        slopes = gradients(subject, moved)
        for name, slope in gradients(subject, one).items():
            expect_same(one, [order], [slopes[name]], slope, f"the gradient by {name}")


def masked_tokens(subject: Subject) -> None:
    """What stands outside `loss_mask` changes no value and no gradient inside."""
    random = torch.Generator().manual_seed(9)
    for seed in _SEEDS:
        one = case(subject.needs, seed)
        mask = one.batch.loss_mask

        def other(value: torch.Tensor, mask: torch.Tensor = mask) -> torch.Tensor:
            inside = mask.reshape(-1, *[1] * (value.dim() - 1))
            return value.where(inside, -4 * torch.rand(value.shape, generator=random).to(value.dtype))

        floats = {name: other(value) for name, value in one.batch.token_fields.items() if value.is_floating_point()}
        noisy = Case(batch=one.batch.with_tokens(**floats), outputs={name: other(value) for name, value in one.outputs.items()})
        loss = subject.build()
        clean, noisy = prepared(loss, one, subject.needs), prepared(loss, noisy, subject.needs)
        expect_same(
            clean,
            [list(range(one.batch.num_sequences))],
            [values_of(result(subject, noisy))],
            values_of(result(subject, clean)),
            "the value",
        )
        slopes = gradients(subject, noisy)
        for name, slope in gradients(subject, clean).items():
            expect(close(slopes[name], slope), f"the gradient by {name} depends on tokens outside loss_mask")


def metrics(subject: Subject) -> None:
    """Metrics are (sum, count) pairs of detached scalars; maxima are scalars whose names end in `_max`."""
    output = result(subject, case_of(subject, 0))
    for name, pair in output.metrics.items():
        expect(is_pair(pair), f"the metric {name} is {shown(pair)}, expected a pair (sum, count)")
        for what, value in zip(("sum", "count"), pair, strict=True):
            expect(
                is_scalar(value),
                f"the {what} of {name} is {shown(value)}, expected a scalar tensor",
            )
            expect(not value.requires_grad, f"the {what} of {name} carries a gradient: detach it")
            expect(bool(value.isfinite()), f"the {what} of {name} is {value.item()}")
    for name, value in output.maxima.items():
        expect(name.endswith("_max"), f"the maximum {name} has a name that does not end in _max")
        expect(
            value.dim() == 0 and not value.requires_grad, f"the maximum {name} is {shown(value)}, expected a detached scalar"
        )


def same_again(subject: Subject) -> None:
    """The same batch gives the same result, from the same object and from another one."""
    one, loss = case_of(subject, 1), subject.build()
    first = values_of(result(subject, one, loss)).detach().clone()
    for what, again in (("a second call", loss), ("an object built anew", subject.build())):
        values = values_of(result(subject, one, again))
        expect(torch.equal(first, values.detach()), f"{what} gives other values for the same batch")


def leaves_the_batch_alone(subject: Subject) -> None:
    """Nothing is written into the batch or into log-probabilities."""
    one = case(subject.needs, 2)
    before = copies(one)
    loss = subject.build()
    run(loss, prepared(loss, one, subject.needs))
    changed = [name for name, value in copies(one).items() if not torch.equal(value, before[name])]
    expect(not changed, f"it writes into {', '.join(changed)}: compute new tensors")


def use(subject: Subject) -> None:
    """Once, as a train engine does."""
    gradients(subject, case_of(subject, 0))


CHECKS = checks(
    per_token,
    reads_what_is_there,
    learns,
    gradient_is_the_slope,
    finite,
    any_split,
    any_order,
    masked_tokens,
    metrics,
    same_again,
    leaves_the_batch_alone,
)
