"""How the checks of losses run one: on a batch that is prepared as a loop prepares it, whole or in parts. N tokens, S sequences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from core_rl.testing.kinds import batches
from core_rl.testing.kinds.batches import close, declared
from core_rl.testing.kinds.loss_batches import Case, case, prepared, run
from core_rl.testing.kit.check import expect, shown

if TYPE_CHECKING:
    from core_rl.roles.train import LossOutput
    from core_rl.testing.kit.subject import Subject


def unit_of(subject: Subject) -> str:
    unit = getattr(subject.build(), "unit", "sequence")
    expect(unit in ("sequence", "group"), f"unit is {unit!r}, expected 'sequence' or 'group'")
    return str(unit)


def case_of(subject: Subject, seed: int, **about: Any) -> Case:
    needs = subject.needs
    with declared(needs):
        return prepared(subject.build(), case(needs, seed, **about), needs)


def result(subject: Subject, one: Case, loss: Any = None, **leaves: torch.Tensor) -> LossOutput:
    with declared(subject.needs):
        return run(loss or subject.build(), one, **leaves)


def values_of(output: LossOutput) -> torch.Tensor:
    return output.values if output.direct is None else output.values + output.direct


def gradients(subject: Subject, one: Case) -> dict[str, torch.Tensor]:
    """Of the sum of values in the mask, by every output of the forward pass."""
    leaves = {name: value.clone().requires_grad_() for name, value in one.outputs.items()}
    total = values_of(result(subject, one, **leaves)).where(one.batch.loss_mask, 0.0).sum()
    if not total.requires_grad:
        return {name: torch.zeros_like(value) for name, value in leaves.items()}
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(leaves, found, strict=True))


def total_by(subject: Subject, one: Case, scale: torch.Tensor, name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """A weighted sum of the values in the mask, as a function of one output of the forward pass."""
    loss = subject.build()

    def total(leaf: torch.Tensor) -> torch.Tensor:
        output = run(loss, one, **{name: leaf})
        return (values_of(output).where(one.batch.loss_mask, 0.0) * scale).sum()

    return total


def is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def is_scalar(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 0


def some_places(one: Case, at: torch.Tensor) -> list[int]:
    """Places of a leaf whose token is in the mask; at most 12."""
    width = at[0].numel()
    inside = [place * width + column for place in one.batch.loss_mask.nonzero().flatten().tolist() for column in range(width)]
    return inside[:: max(1, math.ceil(len(inside) / 12))]


def expect_finite(subject: Subject, one: Case, what: str, *, prepare: bool = True) -> None:
    if prepare:
        one = prepared(subject.build(), one, subject.needs)
    values = values_of(result(subject, one)).where(one.batch.loss_mask, 0.0)
    expect(values.isfinite().all(), f"{what}: values are {shown(values.tolist())}, expected finite ones")
    for name, slope in gradients(subject, one).items():
        expect(
            slope.isfinite().all(), f"{what}: the gradient by {name} is {shown(slope.flatten().tolist())}, expected finite ones"
        )


def expect_same(one: Case, order: list[list[int]], found: list[torch.Tensor], whole: torch.Tensor, what: str) -> None:
    where = torch.cat([one.batch.token_indices(part) for part in order])
    mask = one.batch.loss_mask[where]
    mask = mask.reshape(-1, *[1] * (whole.dim() - 1)).expand(whole[where].shape)
    mine, expected = torch.cat(found).detach()[mask], whole.detach()[where][mask]
    worst = float((mine - expected).abs().max()) if mine.numel() else 0.0
    words = f"{what} of a token depends on what else is in the batch: by {worst:.3g} from that in the whole batch in order"
    expect(close(mine, expected), words)


def expect_same_metrics(whole: LossOutput, outputs: list[LossOutput]) -> None:
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


def copies(one: Case) -> dict[str, torch.Tensor]:
    return batches.copies(one.batch) | {name: value.clone() for name, value in one.outputs.items()}
