"""Checks of normalisers: `core_rl.roles.scoring.Normaliser`. M values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.testing.kit.check import checks, expect, shown

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject

Values = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def one_for_each(subject: Subject) -> None:
    """As many float32 values come out as go in."""
    values, group, mask = _values(0)
    found = subject.build()(values, group, mask)
    expect(found.shape == values.shape, f"{tuple(found.shape)} came out, expected {tuple(values.shape)}")
    expect(found.dtype == torch.float32, f"values are {found.dtype}, expected torch.float32")


def outside_the_mask(subject: Subject) -> None:
    """A value outside the mask is in no statistic and comes out as 0."""
    values, group, mask = _values(1)
    one = subject.build()
    found, other = one(values, group, mask), one(values.where(mask, 1e3), group, mask)
    expect((found[~mask] == 0).all(), f"outside the mask stands {shown(found[~mask].tolist())}, expected 0")
    expect(torch.allclose(found, other, atol=1e-6), "values inside depend on a value outside the mask")


def not_a_number(subject: Subject) -> None:
    """NaN, a reward that failed, is in no statistic and comes out as 0."""
    values, group, mask = _values(2)
    failed = torch.zeros_like(mask)
    failed[0] = failed[-1] = True
    one = subject.build()
    found, without = one(values.masked_fill(failed, torch.nan), group, mask), one(values, group, mask & ~failed)
    expect((found[failed] == 0).all(), f"NaN came out as {shown(found[failed].tolist())}, expected 0")
    expect(torch.allclose(found, without, atol=1e-6), "values depend on one that is NaN: it counts in a mean or a deviation")


def finite(subject: Subject) -> None:
    """Equal values, large ones, a single one and an empty mask come out finite."""
    values, group, mask = _values(3)
    one = subject.build()
    for what, case in (
        ("equal values", (torch.full_like(values, 0.5), group, mask)),
        ("values of 1e6", (1e6 * values, group, mask)),
        ("one value", (values[:1], group[:1], torch.ones(1, dtype=torch.bool))),
        ("an empty mask", (values, group, torch.zeros_like(mask))),
    ):
        found = one(*case)
        expect(found.isfinite().all(), f"{what}: {shown(found.tolist())} came out, expected finite numbers")


def any_order(subject: Subject) -> None:
    """Values in another order, and groups by other numbers, come out the same."""
    values, group, mask = _values(4)
    one = subject.build()
    found = one(values, group, mask)
    turned = one(values.flip(0), group.flip(0), mask.flip(0)).flip(0)
    expect(torch.allclose(found, turned, atol=1e-5), "values come out differently in another order")
    expect(
        torch.allclose(found, one(values, 3 * (9 - group), mask), atol=1e-5),
        "values come out differently for other group numbers",
    )


def same_again(subject: Subject) -> None:
    """The same values give the same result, and are left as they are."""
    values, group, mask = _values(5)
    before, one = values.clone(), subject.build()
    first = one(values, group, mask).clone()
    expect(torch.equal(values, before), "it writes into the values that it is given: compute new ones")
    expect(torch.equal(first, one(values, group, mask)), "a second call gives another result")
    expect(torch.equal(first, subject.build()(values, group, mask)), "an object built anew gives another result")


def use(subject: Subject) -> None:
    """Once."""
    subject.build()(*_values(0))


def _values(seed: int) -> Values:
    """Twelve values in four groups of three, ten of them in the mask."""
    random = torch.Generator().manual_seed(seed)
    mask = torch.ones(12, dtype=torch.bool)
    mask[3] = mask[7] = False
    return torch.randn(12, generator=random), torch.arange(4).repeat_interleave(3), mask


CHECKS = checks(one_for_each, outside_the_mask, not_a_number, finite, any_order, same_again)
