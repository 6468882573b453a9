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
    # one transfer and one sum for all tensors of a device, dtype and sample size, not one for each tensor
    alike: dict[tuple[torch.device, torch.dtype, int], list[tuple[str, torch.Tensor]]] = {}
    for name, tensor in named_tensors:
        names.append(name)
        sample = _sample(tensor.detach(), samples)
        alike.setdefault((sample.device, sample.dtype, sample.numel()), []).append((name, sample))
    sums: dict[str, float] = {}
    for members in alike.values():
        values = torch.stack([sample for _, sample in members]).cpu().double()
        sums |= zip([name for name, _ in members], _weighted(values).tolist(), strict=True)
    return {name: sums[name] for name in names}


def same(a: Mapping[str, float], b: Mapping[str, float], *, rtol: float = 1e-12) -> str | None:
    """None when two fingerprints agree, else their first difference in words. Two NaN agree: the weights did arrive.

    The default tolerance is that of sums added in another order; weights that were cast on the way need a wider one.
    """
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
    # an odd step walks through the columns of a matrix whose width is a power of two
    step = (tensor.numel() // samples - 1) | 1
    if tensor.is_contiguous():
        return tensor.view(-1)[: step * samples : step]
    return tensor[_places(tuple(tensor.shape), step, samples, str(tensor.device))]


@functools.lru_cache(maxsize=4096)
def _places(shape: tuple[int, ...], step: int, samples: int, device: str) -> tuple[torch.Tensor, ...]:
    """The sampled elements' index in every dimension: reshaping would copy the tensor."""
    import torch

    return tuple(index.to(device) for index in torch.unravel_index(torch.arange(samples) * step, shape))


def _weighted(values: torch.Tensor) -> torch.Tensor:
    """[tensors, samples] -> [tensors]."""
    import torch

    count = values.shape[1]
    weights = 1.0 + torch.arange(count, dtype=torch.float64) / max(count, 1)
    return (weights * values.abs() * torch.where(values < 0, 1.5, 1.0)).sum(dim=1)
