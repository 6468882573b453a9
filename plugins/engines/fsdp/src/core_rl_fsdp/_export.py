"""A folder in Hugging Face's form from shards: rank 0 writes, all gather, tensor by tensor."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from core_rl.hf.packed.module import NAME
from core_rl.hf.packed.values import write_value_head
from core_rl.hf.packed.weights import VALUE_HEAD
from core_rl.hf.save import save_about, save_weights
from core_rl_fsdp._shards import named_whole, whole_tensor

if TYPE_CHECKING:
    from core_rl.hf.packed.module import Inside
    from core_rl.hf.spec import ModelSpec


def save_folder(inside: Inside, spec: ModelSpec, path: Path, device: torch.device) -> None:
    model = getattr(inside, NAME)
    stream = named_whole(inside, device, getattr(torch, spec.dtype))
    head = getattr(model, VALUE_HEAD, None)
    weight = None if head is None else whole_tensor(head.weight, device)
    if dist.get_rank() != 0:
        deque(stream, maxlen=0)
    else:
        path.mkdir(parents=True, exist_ok=True)
        save_weights(stream, path)
        save_about(model, spec, path)
        if weight is not None:
            write_value_head(weight.to(getattr(torch, spec.dtype)), path)
    dist.barrier()
