"""Whether a packed batch is one: shapes, dtypes, bounds. For plugins that make or change batches, and for their tests."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from core_rl.data.batch import PackedBatch
from core_rl.errors import DataError

_DTYPES = {"tokens": torch.int64, "cu_seqlens": torch.int32, "positions": torch.int32, "loss_mask": torch.bool}
_FIELD_DTYPES = {"versions": torch.int32, "rewards": torch.float32, "group": torch.int64, "truncated": torch.bool}


def check_batch(batch: PackedBatch) -> None:
    """Nothing for a sound batch.

    Raises:
        DataError: one line for each thing that is wrong.
    """
    problems = [*_dtypes(batch)] or [*_layout(batch)]
    if problems:
        raise DataError("\n".join(f"packed batch: {problem}" for problem in problems))


def _dtypes(batch: PackedBatch) -> Iterator[str]:
    for name, dtype in _DTYPES.items():
        tensor = getattr(batch, name)
        if tensor.dtype != dtype or tensor.dim() != 1:
            yield f"{name} is a vector of {dtype}, found {tensor.dtype} of shape {tuple(tensor.shape)}"
        if tensor.device != batch.tokens.device:
            yield f"{name} is on {tensor.device}, and tokens are on {batch.tokens.device}"
    if batch.cu_seqlens.numel() < 2:
        yield "it has no sequence: cu_seqlens has at least two entries"


def _layout(batch: PackedBatch) -> Iterator[str]:
    bounds, count = batch.cu_seqlens.long(), batch.num_tokens
    if bounds[0] != 0 or bounds[-1] != count or (bounds.diff() < 1).any():
        yield f"cu_seqlens rises from 0 to the number of tokens, {count}, found {_short(bounds)}"
        return
    for name, tensor in {"positions": batch.positions, "loss_mask": batch.loss_mask, **batch.token_fields}.items():
        yield from _field(name, tensor, count, "token", batch.tokens.device)
    for name, tensor in batch.sequence_fields.items():
        yield from _field(name, tensor, batch.num_sequences, "sequence", batch.tokens.device)
    starts = torch.repeat_interleave(bounds[:-1], bounds.diff())
    if batch.positions.numel() == count and not torch.equal(batch.positions.long() + starts, torch.arange(count).to(starts)):
        yield "positions are 0, 1, 2, … in every sequence"
    if batch.loss_mask.numel() == count and batch.loss_mask[bounds[:-1]].any():
        yield "the first token of a sequence is never in loss_mask: nothing stands before it"


def _field(name: str, tensor: torch.Tensor, count: int, unit: str, device: torch.device) -> Iterator[str]:
    if tensor.dim() == 0 or tensor.shape[0] != count:
        yield f"{name} has one entry for each of {count} {unit}s, found shape {tuple(tensor.shape)}"
    if tensor.device != device:
        yield f"{name} is on {tensor.device}, and tokens are on {device}"
    if name in _FIELD_DTYPES and tensor.dtype != _FIELD_DTYPES[name]:
        yield f"{name} is {_FIELD_DTYPES[name]}, found {tensor.dtype}"


def _short(values: torch.Tensor) -> str:
    shown = values[:8].tolist()
    return str(shown) if values.numel() <= 8 else f"{shown[:-1]} and {values.numel() - len(shown[:-1])} more"
