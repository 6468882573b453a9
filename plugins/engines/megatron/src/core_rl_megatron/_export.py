"""A folder that `from_pretrained` loads, written by rank 0 while all ranks bring their parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from core_rl.hf.load import load_config
from core_rl.hf.packed.values import write_value_head
from core_rl.hf.save import save_about, save_weights

if TYPE_CHECKING:
    from core_rl.roles.train import TrainContext
    from core_rl_megatron._holding import Holding


def save_hf(path: Path, holding: Holding, context: TrainContext) -> None:
    if dist.get_rank() == 0:
        save_weights(holding.export(), path)
        save_about(_without_weights(context), context.model, path)
        _save_heads(dict(holding.export(private=True)), path)
    else:
        for private in (False, True):
            for _ in holding.export(private=private):
                pass
    dist.barrier()


def _save_heads(heads: dict[str, torch.Tensor], path: Path) -> None:

    for tensor in heads.values():
        write_value_head(tensor, path)


def _without_weights(context: TrainContext) -> Any:
    """transformers' model of this configuration, on no device."""
    import transformers

    config = load_config(context.model)
    auto = transformers.AutoModelForCausalLM
    if context.heads == "value":
        config.num_labels = 1
        auto = transformers.AutoModelForSequenceClassification
    with torch.device("meta"):
        return auto.from_config(config, trust_remote_code=context.model.trust_remote_code)
