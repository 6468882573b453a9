"""Statistics of rewards over groups: the mean and the standard deviation that each sample is compared with.

S sequences, G groups. Moments are float64. A reward that failed (NaN) is in no statistic and gets 0.

Rules at the edges, each with a test:
- A group of one has nothing to be compared with: 0.
- Of fewer than two values the standard deviation counts as 1.
- Values without any spread are not scaled: the divisor is 1, not eps. An all-equal group is 0 anyway; the rule matters for
  leave-one-out and for a mean and a deviation of different levels, where dividing by eps would blow up.
"""

from __future__ import annotations

from typing import Literal, Self

import attrs
import torch

Level = Literal["group", "batch", "none"]
Std = Literal["population", "sample"]
LeaveOneOut = Literal["none", "mean", "std", "both"]

_NO_SPREAD = 1e-20
"""Of the mean square: below it, a variance in float64 is rounding."""
_NO_SPREAD_LEFT = 1e-13
"""Of the sum of squares: below it, what is left after one value is taken out is rounding."""


@attrs.frozen(eq=False)
class Groups:
    """Which sequences belong together, in a form to reduce over; the result does not depend on the order of summation."""

    index: torch.Tensor
    """[S] int64: the dense number of each sequence's group."""
    order: torch.Tensor
    """[S] int64: the sequences, group by group."""
    sizes: torch.Tensor
    """[G] int64."""

    @classmethod
    def of(cls, group: torch.Tensor) -> Self:
        """From any integer names [S]. Names in order, as a batch has them, need no sorting."""
        if group.numel() < 2 or bool((group[1:] >= group[:-1]).all()):
            _, index, sizes = torch.unique_consecutive(group, return_inverse=True, return_counts=True)
            return cls(index, torch.arange(group.numel(), device=group.device), sizes)
        _, index, sizes = torch.unique(group, return_inverse=True, return_counts=True)
        return cls(index, index.argsort(stable=True), sizes)

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """[S] -> [G]."""
        total: torch.Tensor = torch.segment_reduce(values[self.order], "sum", lengths=self.sizes, unsafe=True)
        return total

    def spread(self, per_group: torch.Tensor) -> torch.Tensor:
        """[G] -> [S]: every sequence gets its group's value."""
        return per_group[self.index]


@attrs.frozen(eq=False)
class Moments:
    """What the statistics of rewards over their groups are made of: all [S] float64, but `known`."""

    groups: Groups
    known: torch.Tensor
    """[S] bool: where there is a reward."""
    values: torch.Tensor
    """The rewards, 0 where there is none."""
    count: torch.Tensor
    total: torch.Tensor

    @classmethod
    def of(cls, rewards: torch.Tensor, group: torch.Tensor | Groups) -> Self:
        groups, known = group if isinstance(group, Groups) else Groups.of(group), rewards.isfinite()
        values = rewards.double().where(known, 0.0)
        count, total = (groups.spread(groups.sum(each)) for each in (known.double(), values))
        return cls(groups, known, values, count, total)

    def mean(self, *, leave_one_out: bool = False) -> torch.Tensor:
        """The mean over each sequence's group; over the others in it with `leave_one_out`. NaN where there is none."""
        total, count = self.total, self.count
        if leave_one_out:
            total, count = total - self.values, count - self.known.double()
        return total / count.where(count > 0, torch.nan)

    def std(self, *, std: Std = "sample", leave_one_out: bool = False) -> torch.Tensor:
        """The standard deviation over each sequence's group, or over the others in it. 1 for fewer than two."""
        count, mean = self.count, self.total / self.count.clamp(min=1)
        centred = (self.values - mean).where(self.known, 0.0)
        squares = self.groups.spread(self.groups.sum(centred.square()))
        squares = squares.where(squares > _NO_SPREAD * (squares + count * mean.square()), 0.0)
        if leave_one_out:
            left = squares - centred.square() * count / (count - 1).clamp(min=1)
            squares = left.where(left > _NO_SPREAD_LEFT * squares, 0.0)
            count = count - self.known.double()
        deviation = (squares / (count - (1 if std == "sample" else 0)).clamp(min=1)).sqrt()
        return deviation.where(count > 1, 1.0)


def group_mean(rewards: torch.Tensor, group: torch.Tensor | Groups, *, leave_one_out: bool = False) -> torch.Tensor:
    """[S] float64: the mean over each sequence's group; over the others in it with `leave_one_out` (RLOO, 2402.14740).

    NaN where there is nothing to take the mean of.
    """
    return Moments.of(rewards, group).mean(leave_one_out=leave_one_out)


def group_std(
    rewards: torch.Tensor, group: torch.Tensor | Groups, *, std: Std = "sample", leave_one_out: bool = False
) -> torch.Tensor:
    """[S] float64: sqrt(sum_j (r_j - mean)^2 / (n - ddof)) over each sequence's group, ddof 1 for `sample`, 0 for `population`.

    With `leave_one_out` over the others: their sum of squares is Q - n/(n-1) (r_i - mean)^2, Q that of all. 1 for fewer than two.
    0 exactly when there is no spread.
    """
    return Moments.of(rewards, group).std(std=std, leave_one_out=leave_one_out)


def normalise(
    rewards: torch.Tensor,
    group: torch.Tensor,
    *,
    mean_level: Level = "group",
    std_level: Level = "group",
    std: Std = "sample",
    leave_one_out: LeaveOneOut = "none",
    eps: float = 1e-6,
) -> torch.Tensor:
    """[S] float32: (r_i - mean) / (std + eps), each statistic over the group, the batch, or left out."""
    members = {"group": group, "batch": torch.zeros_like(group)}
    moments = {level: Moments.of(rewards, members[level]) for level in {mean_level, std_level} - {"none"}}
    result = rewards.double()
    if mean_level != "none":
        result = result - moments[mean_level].mean(leave_one_out=leave_one_out in ("mean", "both"))
    if std_level != "none":
        deviation = moments[std_level].std(std=std, leave_one_out=leave_one_out in ("std", "both"))
        result = result / torch.where(deviation > 0, deviation + eps, 1.0)
    return result.where(result.isfinite(), 0.0).float()
