"""Attention over a packed row, as `layout` says: registered with transformers, so that models need no change.

Every block is one call of torch's scaled_dot_product_attention. Measured on two cores (9 heads, 3 of them keys and values, of 64;
a prompt of 150 and 8 samples of 64), forward and backward: one dense block-diagonal mask 34 ms, trunk and branches apart 15 ms
(9 ms with `enable_gqa` in place of repeated keys), two parts merged by their log-sum-exp 14 ms.

H heads, K of them for keys and values, D their size; T, R, G, B as in `layout`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from core_rl.hf.packed.interface import UnsupportedAttentionError, attention_function
from core_rl.hf.packed.layout import Bucket, Layout
from core_rl.hf.packed.ulysses import Ulysses

NAME = "core_rl_packed"

_active: list[tuple[Layout, Ulysses | None]] = []
"""The layout in force, and who shares its tokens. Global and not a context variable: recomputation under checkpointing runs in autograd's own threads."""


@contextmanager
def packed_attention(model: torch.nn.Module) -> Iterator[None]:
    """Inside, the model's attention is this file's. Covers forward and backward, since checkpointing runs a layer again."""
    with attention_function(model, NAME, attend):
        try:
            yield
        finally:
            _active.clear()


def activate(layout: Layout, ulysses: Ulysses | None = None) -> None:
    """Attention reads this layout until the next."""
    _active[:] = [(layout, ulysses)]


def active_layout() -> Layout:
    return _active[0][0]


class _Take(torch.autograd.Function):
    """`rows[index]` where no row is taken twice but as padding: then the gradient is a take as well, not a slow scatter."""

    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, index: torch.Tensor, inverse: torch.Tensor, empty: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(inverse, empty)
        return rows.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        inverse, empty = ctx.saved_tensors
        grad = grads[0].index_select(0, inverse)
        if empty is not None:
            grad.index_fill_(0, empty, 0)
        return grad, None, None, None


@torch.compiler.disable  # type: ignore[untyped-decorator]
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
    """query [1, H, T, D], key and value [1, K, T, D] -> [1, T, H, D]. Dropout is for pretraining and left out.

    T is T/U where several ranks share the row.
    """
    del module
    unknown = [name for name in ("softcap", "s_aux", "position_bias") if options.get(name) is not None]
    if unknown or attention_mask is not None or query.shape[0] != 1:
        raise UnsupportedAttentionError(", ".join(unknown) or "an attention mask")
    layout, ulysses = _active[0]
    if ulysses is None:
        return _attend(layout, query, key, value, scaling=scaling, window=sliding_window), None
    q, k, v = (ulysses.to_heads(x, len(layout.tokens)) for x in (query, key, value))
    return ulysses.to_slices(_attend(layout, q, k, v, scaling=scaling, window=sliding_window), query.shape[2]), None


def _attend(
    layout: Layout, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scaling: float | None, window: int | None
) -> torch.Tensor:
    """Of the whole row, block by block."""
    sizes = layout.block_rows
    q, k, v = (_padded(x, layout).split(sizes) for x in (query, key, value))
    outputs = []
    at = 0
    for bucket in layout.buckets:
        trunk = _rows(k[at], bucket), _rows(v[at], bucket)
        for block in (bucket, *bucket.branches):
            keys, values = trunk
            if block.parents is not None:
                own = _rows(k[at], block), _rows(v[at], block)
                keys, values = (torch.cat([_spread(t, block), o], 1) for t, o in zip(trunk, own, strict=True))
            mask = block.mask(window, query.dtype)
            outputs.append(_sdpa(_rows(q[at], block), keys, values, mask, scaling).flatten(0, 1))
            at += 1
    packed: torch.Tensor = _Take.apply(torch.cat(outputs), layout.places, layout.padded, layout.padding)  # type: ignore[no-untyped-call]
    return packed[None]


class _Spread(torch.autograd.Function):
    """`trunks[parents]`; the gradient is a small matrix product, since a scatter is slow on a CPU and on CUDA in no fixed order."""

    @staticmethod
    def forward(ctx: Any, trunks: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(parents)
        ctx.count = len(trunks)
        return trunks.index_select(0, parents)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        (parents,) = ctx.saved_tensors
        selector = torch.arange(ctx.count, device=parents.device)[:, None] == parents
        grad = selector.to(grads[0].dtype) @ grads[0].flatten(1)
        return grad.unflatten(1, grads[0].shape[1:]), None


def _spread(trunks: torch.Tensor, block: Bucket) -> torch.Tensor:
    """[G, width, K, D] -> [B, width, K, D]"""
    spread: torch.Tensor = _Spread.apply(trunks, block.parents)  # type: ignore[no-untyped-call]
    return spread


def _padded(x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """[1, H, T, D] -> [R, H, D]"""
    taken: torch.Tensor = _Take.apply(x[0].transpose(0, 1), layout.padded, layout.places, None)  # type: ignore[no-untyped-call]
    return taken


def _rows(x: torch.Tensor, block: Bucket) -> torch.Tensor:
    """[rows · width, H, D] -> [rows, width, H, D]"""
    rows: torch.Tensor = x.unflatten(0, (len(block.lengths), block.width))
    return rows


def _sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, scaling: float | None) -> torch.Tensor:
    """[rows, width, H, D]"""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    repeats = q.shape[1] // k.shape[1]
    grouped = repeats > 1 and (mask is None or q.device.type == "cpu")
    if repeats > 1 and not grouped:  # CUDA's fused kernels take no mask together with grouped heads
        k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, scale=scaling, enable_gqa=grouped)
    return out.transpose(1, 2)
