"""The model's weights under their Hugging Face names, made whole one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from core_rl.hf.packed.weights import hf_names
from core_rl_deepspeed._shards import Shards


@torch.no_grad()
def named_whole(model: Any, shards: Shards) -> Iterator[tuple[str, torch.Tensor]]:
    """A tied one once, adapters merged; the same on all ranks, which go through it together. The tensors are copies."""
    for name, tensor, adapter in hf_names(model):
        parts = [tensor] if adapter is None else [tensor, adapter.up, adapter.down]
        with shards.whole([_source(part) for part in parts]):
            value = tensor.detach().clone()
            if adapter is not None:
                delta = adapter.scaling * (_whole(adapter.up).float() @ _whole(adapter.down).float())
                value = (value.float() + delta).to(value.dtype)
        yield name, value


def _source(tensor: torch.Tensor) -> Any:
    """The weight itself: of layers that keep theirs transposed, adapters are views."""
    return tensor if tensor._base is None else tensor._base  # noqa: SLF001 - torch has no public name for it


def _whole(part: torch.Tensor) -> torch.Tensor:
    """Of a view that was made before its weight was whole, the view anew."""
    weight: torch.Tensor = _source(part)
    return weight if weight is part else weight.t()
