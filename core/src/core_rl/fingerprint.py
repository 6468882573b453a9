"""A fingerprint of a model's weights: one number for each tensor, from a strided sample of its elements.

For elements x_1 … x_k, evenly spaced over a tensor read row by row, it is

    sum_i  w_i * |x_i| * (1 if x_i >= 0 else 3/2),      w_i = 1 + i / k,   in float64.

No term is negative, so nothing cancels and a relative tolerance has a meaning; position and sign both count. The sample follows the
logical index, never the memory: a transposed or sliced view has the fingerprint of its contiguous copy. Elements become float64
without rounding, so equal values have equal fingerprints in any dtype that holds them. No tensor is read as a whole.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def fingerprint(named_tensors: Iterable[tuple[str, torch.Tensor]], *, samples: int = 256) -> dict[str, float]:
    """The fingerprint of every tensor, by name."""
    import torch

    names: list[str] = []
    # one transfer for each device and dtype, not one for each tensor
    picked: dict[tuple[torch.device, torch.dtype], list[tuple[int, torch.Tensor]]] = {}
    for number, (name, tensor) in enumerate(named_tensors):
        names.append(name)
        picked.setdefault((tensor.device, tensor.dtype), []).append((number, _sample(tensor.detach(), samples)))
    sums = [0.0] * len(names)
    for batch in picked.values():
        values = torch.cat([sample for _, sample in batch]).cpu().double()
        for (number, _), part in zip(batch, values.split([sample.numel() for _, sample in batch]), strict=True):
            sums[number] = _weighted(part)
    return dict(zip(names, sums, strict=True))


def same(a: Mapping[str, float], b: Mapping[str, float], *, rtol: float = 0.0) -> str | None:
    """None when two fingerprints agree, else their first difference in words. Two NaN agree: the weights did arrive."""
    for first, second, where in ((a, b, "second"), (b, a, "first")):
        missing = [name for name in first if name not in second]
        if missing:
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            return f"{missing[0]}{more} is missing on the {where} side"
    for name, value in a.items():
        other = b[name]
        if not (value == other or (math.isnan(value) and math.isnan(other)) or math.isclose(value, other, rel_tol=rtol)):
            return f"{name} is {value:.9g} on the first side and {other:.9g} on the second"
    return None


def _sample(tensor: torch.Tensor, samples: int) -> torch.Tensor:
    if tensor.numel() <= samples:
        return tensor.reshape(-1)
    return tensor[_places(tuple(tensor.shape), samples, str(tensor.device))]


@functools.lru_cache(maxsize=4096)
def _places(shape: tuple[int, ...], samples: int, device: str) -> tuple[torch.Tensor, ...]:
    """The sampled elements' index in every dimension, first and last element included."""
    import torch

    last = math.prod(shape) - 1
    flat = torch.tensor([index * last // (samples - 1) for index in range(samples)])
    return tuple(index.to(device) for index in torch.unravel_index(flat, shape))


def _weighted(values: torch.Tensor) -> float:
    import torch

    weights = 1.0 + torch.arange(values.numel(), dtype=torch.float64) / max(values.numel(), 1)
    return float((weights * values.abs() * torch.where(values < 0, 1.5, 1.0)).sum())
