"""Attention over a `SlotCache`: registered with transformers, so that models need no change.

Decode: the query heads that share a key head are put in a row, so that grouped heads need no copies of keys.

R running sequences, T tokens of a packed prefill, H heads, K of them for keys and values, D their size, L the longest sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from core_rl.hf.packed.interface import UnsupportedAttentionError, attention_function
from core_rl_local._slots import SlotCache

NAME = "core_rl_slots"

_active: list[SlotCache] = []


@contextmanager
def slot_attention(model: Any, cache: SlotCache) -> Iterator[None]:
    """Inside, the model's attention reads `cache`."""
    with attention_function(model, NAME, attend):
        _active[:] = [cache]
        try:
            yield
        finally:
            _active.clear()


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Prefill: query [1, H, T, D], key and value [1, K, T, D]. Decode: [R, H, 1, D] and [R, K, L, D]. -> [.., .., H, D]"""
    del module
    unknown = [name for name in ("softcap", "s_aux", "position_bias") if options.get(name) is not None]
    if unknown or attention_mask is not None:
        raise UnsupportedAttentionError(", ".join(unknown) or "an attention mask")
    cache = _active[0]
    if cache.lengths is None:
        parts = []
        for part in cache.segments:
            q, k, v = (x[:, :, part.start : part.end] for x in (query, key, value))
            parts.append(_causal(q, k, v, scaling=scaling, window=sliding_window))
        return torch.cat(parts, 2).transpose(1, 2), None
    grouped = query.reshape(query.shape[0], key.shape[1], -1, query.shape[-1])  # [R, K, H/K, D]
    mask = cache.visible(sliding_window)
    out = scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scaling)
    return out.reshape(query.shape[0], 1, query.shape[1], -1), None


def _causal(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scaling: float | None, window: int | None
) -> torch.Tensor:
    length = query.shape[2]
    if window is None or window >= length:
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=True)
    at = torch.arange(length, device=query.device)
    mask = (at[None] <= at[:, None]) & (at[None] > at[:, None] - window)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True)
