"""How far two results are apart, as one number. What cannot be compared is infinitely far: names, shapes, NaN on one side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import torch


@attrs.frozen(kw_only=True)
class Measured:
    """One quantity of a check. It holds when `difference` is not above `allowed`. `note` says where the difference is."""

    what: str
    difference: float
    allowed: float
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.difference <= self.allowed  # NaN is not

    def __str__(self) -> str:
        sign = "<=" if self.holds else ">"
        return f"{self.what}: {self.difference:.3g} {sign} {self.allowed:.3g}" + (f" ({self.note})" if self.note else "")


@attrs.frozen(kw_only=True)
class Tolerances:
    """The largest allowed differences. The defaults are those of float32, which every engine must meet."""

    logprobs: float = 1e-4
    """Absolute, of log-probabilities, entropies and values."""
    loss: float = 1e-5
    """Relative."""
    grad_norm: float = 1e-4
    """Relative."""
    weights: float = 1e-5
    """Absolute, after one to three steps of at most 0.002."""
    metrics: float = 1e-5
    """Relative."""
    same: float = 1e-6
    """Of results that ought to be equal to the bit: of one engine before and after, of all ranks."""


HALF = Tolerances(logprobs=0.15, loss=0.15, grad_norm=0.15, weights=5e-3, metrics=0.15, same=1e-2)
"""Of an engine that computes in bfloat16, against float32: eight bits of mantissa in each of some ten roundings in a row.

Measured: log-probabilities are off by up to 0.08, and the loss, of exponentials of them, by about as much of itself.
"""


def of_tensors(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, str]:
    """The largest absolute difference, and where it is."""
    if found.shape != expected.shape:
        return math.inf, f"shape {list(found.shape)}, expected {list(expected.shape)}"
    if not expected.numel():
        return 0.0, ""
    gaps = (found.detach().cpu().double() - expected.detach().cpu().double()).abs().flatten()
    index = int(gaps.argmax())
    value = float(gaps[index])
    return (value, "") if math.isfinite(value) else (math.inf, f"{float(found.flatten()[index])} at {index}")


def of_numbers(found: float, expected: float) -> float:
    """Relative to the expected one; absolute where 0 is expected."""
    gap = abs(found - expected) / (abs(expected) or 1.0)
    return gap if math.isfinite(gap) else math.inf


def of_weights(found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> tuple[float, str]:
    """The largest absolute difference of all tensors, and in which it is."""
    odd = _only_once(found, expected)
    if odd:
        return math.inf, odd
    gaps = {name: of_tensors(found[name], tensor) for name, tensor in expected.items()}
    name = max(gaps, key=lambda each: gaps[each][0])
    return gaps[name][0], f"{name} {gaps[name][1]}".strip()


def of_metrics(found: Mapping[str, float], expected: Mapping[str, float]) -> tuple[float, str]:
    """The largest relative difference, and of which metric."""
    odd = _only_once(found, expected)
    if odd:
        return math.inf, odd
    gaps = {name: of_numbers(found[name], value) for name, value in expected.items()}
    name = max(gaps, key=lambda each: gaps[each], default="")
    return gaps.get(name, 0.0), name


def _only_once(found: Mapping[str, object], expected: Mapping[str, object]) -> str:
    missing, more = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    words = [f"{names[0]} is {how}" for names, how in ((missing, "missing"), (more, "not expected")) if names]
    return ", ".join(words)
