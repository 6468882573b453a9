"""Checks of losses: `core_rl.roles.scoring.Loss`. N tokens, S sequences.

They build the batch themselves: the fields that every loss may read, and those that the component declares in `needs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import torch

from core_rl.testing.kinds.batches import close, declared
from core_rl.testing.kinds.constants import gradient_error
from core_rl.testing.kinds.loss_batches import Case, case, parts, prepared, run
from core_rl.testing.kit.check import checks, expect, shown

if TYPE_CHECKING:
    from core_rl.roles.train import LossOutput
    from core_rl.testing.kit.subject import Subject

_SEEDS = range(3)


def per_token(subject: Subject) -> None:
    """It gives a float32 value for every token, [N], and no mean of them."""
    for seed in _SEEDS:
        one = _case(subject, seed)
        values = _run(subject, one).values
        expect(isinstance(values, torch.Tensor), f"values is {shown(values)}, expected a tensor [N]")
        count = one.batch.num_tokens
        words = f"values has the shape {tuple(values.shape)}, expected [{count}]: one per token, never averaged"
        expect(values.shape == (count,), words)
        expect(values.dtype == torch.float32, f"values is {values.dtype} for float32 log-probabilities, expected torch.float32")


def reads_what_is_there(subject: Subject) -> None:
    """It reads the fields that every batch has, and beside them only what its component declares in `needs`."""
    for seed in _SEEDS:
        _run(subject, _case(subject, seed))


def learns(subject: Subject) -> None:
    """Its values carry a gradient to what the forward pass gave."""
    slopes = [slope for seed in _SEEDS for slope in _gradients(subject, _case(subject, seed)).values()]
    expect(
        any(slope.abs().max() > 0 for slope in slopes), "no gradient reaches logprobs or anything else: nothing would be learnt"
    )


def gradient_is_the_slope(subject: Subject) -> None:
    """In float64 its gradient is that of finite differences, with what it detaches held constant."""
    random = torch.Generator().manual_seed(3)
    for seed in (0, 1):
        one = _case(subject, seed, groups=2, double=True)
        scale = torch.rand(one.batch.num_tokens, generator=random).double().where(one.batch.loss_mask, 0.0)
        for name, at in one.outputs.items():
            error = gradient_error(_total(subject, one, scale, name), at, _some(one, at))
            words = f"the gradient by {name} is {error:.3g} away from finite differences, relative to the largest slope"
            expect(error < 1e-4, words)


def finite(subject: Subject) -> None:
    """Values and gradients are finite for log-ratios of ±50 and ±1e4, for certain tokens, for one sequence, and for an empty mask."""
    one = _case(subject, 0)
    others = [name for name in one.batch.token_fields if name.endswith("_logprobs")]
    for shift in (50.0, -50.0, 1e4, -1e4):
        moved = {name: one.batch[name] + shift for name in others}
        _expect_finite(subject, attrs.evolve(one, batch=one.batch.with_tokens(**moved)), f"log-ratios of {-shift:g}")
    certain = {name: torch.zeros_like(value) for name, value in one.outputs.items() if name == "logprobs"}
    _expect_finite(subject, attrs.evolve(one, outputs={**one.outputs, **certain}), "probability 1")
    if _unit(subject) == "sequence":
        _expect_finite(subject, one.select([0]), "one sequence", prepare=False)
    empty = one.batch.with_loss_mask(torch.zeros_like(one.batch.loss_mask))
    _expect_finite(subject, attrs.evolve(one, batch=empty), "an empty mask")


def any_split(subject: Subject) -> None:
    """Micro-batches and ranks change nothing: values and gradients of tokens, means of metrics."""
    for seed in _SEEDS:
        one = _case(subject, seed)
        whole, slopes = _run(subject, one), _gradients(subject, one)
        for size in (1, 2):
            divided = list(parts(one, by_group=_unit(subject) == "group", size=size))
            outputs = [_run(subject, one.select(part)) for part in divided]
            _expect_same(one, divided, [_values(output) for output in outputs], _values(whole), "the value")
            found = [_gradients(subject, one.select(part)) for part in divided]
            for name, slope in slopes.items():
                _expect_same(one, divided, [part[name] for part in found], slope, f"the gradient by {name}")
            _expect_same_metrics(whole, outputs)


def any_order(subject: Subject) -> None:
    """The sequences of a batch in another order have the same values and gradients."""
    for seed in _SEEDS:
        one = _case(subject, seed)
        order = [index for part in parts(one, by_group=_unit(subject) == "group", size=1) for index in part]
        moved = one.select(order)
        _expect_same(one, [order], [_values(_run(subject, moved))], _values(_run(subject, one)), "the value")
        slopes = _gradients(subject, moved)
        for name, slope in _gradients(subject, one).items():
            _expect_same(one, [order], [slopes[name]], slope, f"the gradient by {name}")


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
        _expect_same(
            clean,
            [list(range(one.batch.num_sequences))],
            [_values(_run(subject, noisy))],
            _values(_run(subject, clean)),
            "the value",
        )
        slopes = _gradients(subject, noisy)
        for name, slope in _gradients(subject, clean).items():
            expect(close(slopes[name], slope), f"the gradient by {name} depends on tokens outside loss_mask")


def metrics(subject: Subject) -> None:
    """Metrics are (sum, count) pairs of detached scalars; maxima are scalars whose names end in `_max`."""
    output = _run(subject, _case(subject, 0))
    for name, pair in output.metrics.items():
        expect(_is_pair(pair), f"the metric {name} is {shown(pair)}, expected a pair (sum, count)")
        for what, value in zip(("sum", "count"), pair, strict=True):
            expect(
                _is_scalar(value),
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
    one, loss = _case(subject, 1), subject.build()
    first = _values(_run(subject, one, loss)).detach().clone()
    for what, again in (("a second call", loss), ("an object built anew", subject.build())):
        values = _values(_run(subject, one, again))
        expect(torch.equal(first, values.detach()), f"{what} gives other values for the same batch")


def leaves_the_batch_alone(subject: Subject) -> None:
    """Nothing is written into the batch or into log-probabilities."""
    one = case(subject.needs, 2)
    before = _copies(one)
    loss = subject.build()
    run(loss, prepared(loss, one, subject.needs))
    changed = [name for name, value in _copies(one).items() if not torch.equal(value, before[name])]
    expect(not changed, f"it writes into {', '.join(changed)}: compute new tensors")


def use(subject: Subject) -> None:
    """Once, as a train engine does."""
    _gradients(subject, _case(subject, 0))


def _unit(subject: Subject) -> str:
    unit = getattr(subject.build(), "unit", "sequence")
    expect(unit in ("sequence", "group"), f"unit is {unit!r}, expected 'sequence' or 'group'")
    return str(unit)


def _case(subject: Subject, seed: int, **about: Any) -> Case:
    needs = subject.needs
    with declared(needs):
        return prepared(subject.build(), case(needs, seed, **about), needs)


def _run(subject: Subject, one: Case, loss: Any = None, **leaves: torch.Tensor) -> LossOutput:
    with declared(subject.needs):
        return run(loss or subject.build(), one, **leaves)


def _values(output: LossOutput) -> torch.Tensor:
    return output.values if output.direct is None else output.values + output.direct


def _gradients(subject: Subject, one: Case) -> dict[str, torch.Tensor]:
    """Of the sum of values in the mask, by every output of the forward pass."""
    leaves = {name: value.clone().requires_grad_() for name, value in one.outputs.items()}
    total = _values(_run(subject, one, **leaves)).where(one.batch.loss_mask, 0.0).sum()
    if not total.requires_grad:
        return {name: torch.zeros_like(value) for name, value in leaves.items()}
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(leaves, found, strict=True))


def _total(subject: Subject, one: Case, scale: torch.Tensor, name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """A weighted sum of the values in the mask, as a function of one output of the forward pass."""
    loss = subject.build()

    def total(leaf: torch.Tensor) -> torch.Tensor:
        output = run(loss, one, **{name: leaf})
        return (_values(output).where(one.batch.loss_mask, 0.0) * scale).sum()

    return total


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def _is_scalar(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 0


def _some(one: Case, at: torch.Tensor) -> list[int]:
    """Places of a leaf whose token is in the mask; at most 12."""
    width = at[0].numel()
    inside = [place * width + column for place in one.batch.loss_mask.nonzero().flatten().tolist() for column in range(width)]
    return inside[:: max(1, math.ceil(len(inside) / 12))]


def _expect_finite(subject: Subject, one: Case, what: str, *, prepare: bool = True) -> None:
    if prepare:
        one = prepared(subject.build(), one, subject.needs)
    values = _values(_run(subject, one)).where(one.batch.loss_mask, 0.0)
    expect(values.isfinite().all(), f"{what}: values are {shown(values.tolist())}, expected finite ones")
    for name, slope in _gradients(subject, one).items():
        expect(
            slope.isfinite().all(), f"{what}: the gradient by {name} is {shown(slope.flatten().tolist())}, expected finite ones"
        )


def _expect_same(one: Case, order: list[list[int]], found: list[torch.Tensor], whole: torch.Tensor, what: str) -> None:
    where = torch.cat([one.batch.token_indices(part) for part in order])
    mask = one.batch.loss_mask[where]
    mask = mask.reshape(-1, *[1] * (whole.dim() - 1)).expand(whole[where].shape)
    mine, expected = torch.cat(found).detach()[mask], whole.detach()[where][mask]
    worst = float((mine - expected).abs().max()) if mine.numel() else 0.0
    words = f"{what} of a token depends on what else is in the batch: by {worst:.3g} from that in the whole batch in order"
    expect(close(mine, expected), words)


def _expect_same_metrics(whole: LossOutput, outputs: list[LossOutput]) -> None:
    for name, (total, count) in whole.metrics.items():
        sums = [float(output.metrics[name][0]) for output in outputs if name in output.metrics]
        counts = [float(output.metrics[name][1]) for output in outputs if name in output.metrics]
        if not count and not sum(counts):
            continue
        mean, divided = float(total) / float(count or 1), math.fsum(sums) / (math.fsum(counts) or 1.0)
        words = f"the metric {name} is {divided:.6g} over micro-batches and {mean:.6g} over the whole batch"
        expect(math.isclose(mean, divided, rel_tol=1e-4, abs_tol=1e-5), words)
    for name, value in whole.maxima.items():
        largest = max(float(output.maxima.get(name, -torch.inf)) for output in outputs)
        words = f"the maximum {name} is {largest:.6g} over micro-batches and {float(value):.6g} over the whole batch"
        expect(math.isclose(largest, float(value), rel_tol=1e-4, abs_tol=1e-5), words)


def _copies(one: Case) -> dict[str, torch.Tensor]:
    batch = one.batch
    layout = {
        "tokens": batch.tokens,
        "cu_seqlens": batch.cu_seqlens,
        "positions": batch.positions,
        "loss_mask": batch.loss_mask,
    }
    return {
        name: value.clone() for name, value in {**layout, **batch.token_fields, **batch.sequence_fields, **one.outputs}.items()
    }


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
