"""Finite differences of a function that holds some of its values constant: those it detaches, and those it computes without gradient.

A policy-gradient loss may weigh a log-probability with a ratio that is detached; its gradient is then not the slope of its value. At the
point where the gradient is taken those values are written down, and at the points beside it they are put in again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_STEP = 1e-5
_DETACH = (torch.Tensor.detach, torch.Tensor.data.__get__)  # type: ignore[attr-defined]


class Constants(TorchFunctionMode):
    """Writes down what is constant on the first run through, and gives it back on every later one."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[Any] = []
        self._place: int | None = None
        self._switched_off = False

    def replay(self) -> None:
        """From here on, and from the beginning."""
        self._place = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if getattr(func, "__name__", "") == "_set_grad_enabled":
            self._switched_off = not args[0]
            return func(*args, **(kwargs or {}))
        if func not in _DETACH and not self._switched_off:
            return func(*args, **(kwargs or {}))
        if self._place is None:
            value = func(*args, **(kwargs or {}))
            self.values.append(value.clone() if isinstance(value, torch.Tensor) else value)
            return value
        value = self.values[self._place]
        self._place += 1
        return value.clone() if isinstance(value, torch.Tensor) else value


def gradient_error(function: Callable[[torch.Tensor], torch.Tensor], at: torch.Tensor, places: list[int]) -> float:
    """How far autograd's gradient of a scalar function is from central differences, at the worst of these places, relative to the largest slope."""
    leaf = at.clone().requires_grad_()
    with Constants() as constants:
        value = function(leaf)
    found = torch.zeros_like(at)
    if value.requires_grad:
        (found,) = torch.autograd.grad(value, leaf, allow_unused=True, materialize_grads=True)
    worst = 0.0
    for place in places:
        slope = (_beside(function, at, place, _STEP, constants) - _beside(function, at, place, -_STEP, constants)) / (2 * _STEP)
        worst = max(worst, abs(float(found.flatten()[place]) - slope))
    return worst / max(1.0, float(found.abs().max()))


def _beside(
    function: Callable[[torch.Tensor], torch.Tensor], at: torch.Tensor, place: int, step: float, constants: Constants
) -> float:
    moved = at.clone()
    moved.view(-1)[place] += step
    moved.requires_grad_()  # so that the same operations are recorded
    constants.replay()
    with constants:
        value = function(moved)
    return value.item()
