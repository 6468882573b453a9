"""Sums, means, extremes and scans over the segments of a packed tensor.

N tokens, S segments. `cu_seqlens` [S+1] integer: segment s is `[cu_seqlens[s], cu_seqlens[s+1])`; a segment may be empty.
`mask` [N] bool leaves tokens out; None takes all. What is left out may be NaN or infinite: it never reaches a result or a
gradient, nor does one segment reach another. Work is linear in N; scans take log2(longest segment) passes, a plain sum of finite
numbers one.
"""

from __future__ import annotations

from typing import Literal

import torch

_EXTREME_OF_NOTHING = {"max": -torch.inf, "min": torch.inf}


def segment_lengths(cu_seqlens: torch.Tensor) -> torch.Tensor:
    """[S] int64."""
    return cu_seqlens.long().diff()


def segment_ids(cu_seqlens: torch.Tensor, num_tokens: int) -> torch.Tensor:
    """[N] int64: the segment that each token is in."""
    segments = torch.arange(cu_seqlens.numel() - 1, device=cu_seqlens.device)
    return torch.repeat_interleave(segments, segment_lengths(cu_seqlens), output_size=num_tokens)


def broadcast(per_segment: torch.Tensor, cu_seqlens: torch.Tensor, num_tokens: int) -> torch.Tensor:
    """[S] -> [N]: every token gets its segment's value."""
    return torch.repeat_interleave(per_segment, segment_lengths(cu_seqlens), output_size=num_tokens)


def segment_sum(values: torch.Tensor, cu_seqlens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """[N] -> [S]: sum_t m_t x_t, accumulated in float64; 0 for nothing."""
    total = _reduce(_masked(values, mask, 0.0).double(), "sum", cu_seqlens)
    return total.to(values.dtype) if values.is_floating_point() else total.round().long()


def segment_count(mask: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """[N] bool -> [S] int64: how many tokens are in the mask."""
    return segment_sum(mask.long(), cu_seqlens)


def segment_mean(values: torch.Tensor, cu_seqlens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """[N] -> [S]: sum_t m_t x_t / sum_t m_t; 0 for nothing."""
    count = segment_lengths(cu_seqlens) if mask is None else segment_count(mask, cu_seqlens)
    return segment_sum(values, cu_seqlens, mask) / count.clamp(min=1)


def segment_max(values: torch.Tensor, cu_seqlens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """[N] -> [S]: the largest; -inf for nothing."""
    return _reduce(_masked(values, mask, -torch.inf), "max", cu_seqlens)


def segment_min(values: torch.Tensor, cu_seqlens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """[N] -> [S]: the smallest; +inf for nothing."""
    return _reduce(_masked(values, mask, torch.inf), "min", cu_seqlens)


def prefix_sum(values: torch.Tensor, cu_seqlens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """[N] -> [N]: y_t = sum_{j <= t} m_j x_j inside t's own segment."""
    before = torch.arange(values.numel(), device=values.device) - broadcast(cu_seqlens[:-1].long(), cu_seqlens, values.numel())
    result = _masked(values, mask, 0)
    step, longest = 1, _longest(cu_seqlens)
    while step < longest:
        reached = torch.where(before[step:] >= step, result[:-step], 0)
        result = torch.cat([result[:step], result[step:] + reached])
        step *= 2
    return result


def discounted_suffix_sum(
    values: torch.Tensor, cu_seqlens: torch.Tensor, discount: float | torch.Tensor = 1.0, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """[N] -> [N]: y_t = sum_{j >= t} discount^(j - t) m_j x_j inside t's own segment; `discount` may be one of each segment [S].

    By doubling: after pass k, y_t holds the first 2^k terms, since y_t^(k+1) = y_t^(k) + discount^(2^k) · y_{t+2^k}^(k).
    """
    if isinstance(discount, float) and discount == 1.0 and _may_be_cumulated(values, mask):
        return _suffix_sum(_masked(values, mask, 0), cu_seqlens)
    after = broadcast(cu_seqlens[1:].long(), cu_seqlens, values.numel()) - torch.arange(values.numel(), device=values.device)
    result = _masked(values, mask, 0)
    step, longest = 1, _longest(cu_seqlens)
    factor = discount
    if isinstance(discount, torch.Tensor):
        factor = broadcast(discount, cu_seqlens, values.numel()).to(values.dtype)
    while step < longest and (isinstance(factor, torch.Tensor) or factor != 0.0):
        reached = torch.where(after[:-step] > step, result[step:], 0)
        scale = factor[:-step] if isinstance(factor, torch.Tensor) else factor
        result = torch.cat([result[:-step] + scale * reached, result[-step:]])
        step, factor = step * 2, factor * factor
    return result


def _may_be_cumulated(values: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """A sum over everything keeps segments apart only if no term is infinite, and on CUDA its order of summation is not fixed."""
    fixed_order = not (values.is_cuda and torch.are_deterministic_algorithms_enabled())
    return fixed_order and bool(_masked(values.detach(), mask, 0).isfinite().all())


def _suffix_sum(values: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """[N] -> [N]: what stands from t to the end of everything, less what stands behind the segment; in float64."""
    before = torch.cat([values.new_zeros(1, dtype=torch.float64), values.double().cumsum(0)])
    return (broadcast(before[cu_seqlens[1:].long()], cu_seqlens, values.numel()) - before[:-1]).to(values.dtype)


def _masked(values: torch.Tensor, mask: torch.Tensor | None, neutral: float) -> torch.Tensor:
    return values if mask is None else values.where(mask, neutral)


def _reduce(values: torch.Tensor, how: Literal["sum", "max", "min"], cu_seqlens: torch.Tensor) -> torch.Tensor:
    # segment_reduce is deterministic on CUDA too, where index_add is not
    lengths = segment_lengths(cu_seqlens)
    initial = _EXTREME_OF_NOTHING.get(how, 0.0)
    reduced: torch.Tensor = torch.segment_reduce(values, how, lengths=lengths, unsafe=True, initial=initial)
    return reduced


def _longest(cu_seqlens: torch.Tensor) -> int:
    lengths = segment_lengths(cu_seqlens)
    return int(lengths.max()) if lengths.numel() else 0
