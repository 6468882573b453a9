"""Which function computes attention over a packed row: ours, torch's kernel for ragged rows, or one of transformers'.

Only ours computes the prompt of a group once; the others see every sequence whole, told apart by positions that start again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import torch

from core_rl.errors import UserError
from core_rl.hf.packed.attention import active_layout, packed_attention
from core_rl.hf.packed.interface import UnsupportedAttentionError, attention_function

Attention = Literal["packed", "varlen", "sdpa", "eager", "flex", "flash_attention_2", "flash_attention_3"]

_IN_TRANSFORMERS = {"flex": "flex_attention"}
_ON_GPUS = {"varlen": "torch has its kernel for CUDA alone", "flex": "torch has no backward pass of it on the CPU"}


def choose(model: Any, attention: Attention, device: torch.device) -> None:
    """Make one of transformers' the model's own.

    Raises:
        UserError: it cannot run on this device, is not installed, or the model does not have it.
    """
    if device.type == "cpu" and attention in _ON_GPUS:
        message = f"train_engine.attention: {attention} needs a GPU, {_ON_GPUS[attention]}; take packed or sdpa"
        raise UserError(message)
    if attention in {"packed", "varlen"}:
        return
    try:
        model.set_attn_implementation(_IN_TRANSFORMERS.get(attention, attention))
    except (ImportError, ValueError) as error:
        message = f"train_engine.attention: {attention} cannot be used here: {str(error).splitlines()[0]}"
        raise UserError(message) from error


def context_of(model: Any, attention: Attention) -> Any:
    """The context in which a packed row and its backward pass are computed."""
    if attention == "packed":
        return packed_attention(model)
    return _varlen(model) if attention == "varlen" else nullcontext()


@contextmanager
def _varlen(model: Any) -> Iterator[None]:
    with attention_function(model, "core_rl_varlen", attend_varlen):
        yield


@torch.compiler.disable  # type: ignore[untyped-decorator]
def attend_varlen(
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
    """query [1, H, T, D], key and value [1, K, T, D] -> [1, T, H, D], each sequence by itself."""
    from torch.nn.attention.varlen import varlen_attn

    del module
    if attention_mask is not None or any(options.get(name) is not None for name in ("softcap", "s_aux", "position_bias")):
        message = "an attention mask, a soft cap or sinks"
        raise UnsupportedAttentionError(message)
    bounds, longest = boundaries(active_layout().positions)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    window = (-1, 0) if sliding_window is None else (sliding_window - 1, 0)
    grouped = q.shape[1] != k.shape[1]
    result: Any = varlen_attn(q, k, v, bounds, bounds, longest, longest, scale=scaling, window_size=window, enable_gqa=grouped)
    return result[None], None


def boundaries(positions: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Where sequences begin and the last one ends [S + 1] int32, and the longest, of positions [T] that start again."""
    starts = (positions == 0).nonzero()[:, 0]
    bounds = torch.cat([starts, starts.new_tensor([len(positions)])]).int()
    return bounds, int(bounds.diff().max())
