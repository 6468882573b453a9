"""A folder in Hugging Face's form: all ranks make the weights whole, one after the other, and rank 0 writes."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import torch.distributed as dist

from core_rl.hf.packed.values import save_value_head
from core_rl.hf.save import save_about, save_weights
from core_rl_deepspeed._weights import named_whole

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec
    from core_rl_deepspeed._model import Built
    from core_rl_deepspeed._shards import Shards


def save_folder(built: Built, shards: Shards, spec: ModelSpec, path: Path) -> None:
    """With the adapters in a folder `adapter` of their own, and a value head beside the model."""
    writes = dist.get_rank() == 0
    stream = named_whole(built.model, shards)
    if writes:
        path.mkdir(parents=True, exist_ok=True)
        save_weights(stream, path)
        save_about(built.model, spec, path)
    else:
        deque(stream, maxlen=0)
    small = [param for name, param in built.model.named_parameters() if ".lora_" in name or param is built.policy.value_weight]
    with shards.whole(small):
        if writes:
            save_value_head(built.model, path)
            if built.adapted is not None:
                built.adapted.save_pretrained(path / "adapter")
    dist.barrier()
