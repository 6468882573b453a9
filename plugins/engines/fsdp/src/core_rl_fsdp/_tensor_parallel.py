"""Tensor parallelism: matrices of attention and feed-forward layers in columns and rows, tables of the vocabulary in rows.

transformers' models say themselves how (`base_model_tp_plan`); embeddings and output layer are cut here, tied ones as one. Activations between
layers are whole on every rank of the tensor group.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from core_rl.errors import UserError
from core_rl_fsdp._shards import local

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_PARTIAL = "replicated_with_grad_allreduce"
"""A weight that every rank has whole and uses for its own heads: its gradients are to be added up."""


def check(model: Any, size: int) -> None:
    """Raises `UserError` for a model without a plan that is understood, or whose layers do not divide."""
    config = model.config.get_text_config()
    styles = set((getattr(config, "base_model_tp_plan", None) or {"": "none"}).values())
    odd = sorted(styles - {"colwise", "rowwise", _PARTIAL})
    output = model.get_output_embeddings()
    if odd or (output is not None and output.bias is not None) or getattr(config, "final_logit_softcapping", None):
        why = f"its plan in transformers has {odd[0]!r}" if odd else "its output layer is more than a matrix"
        message = f"train_engine.tensor_parallel: {config.model_type} cannot be cut: {why}; set it to 1"
        raise UserError(message)
    sizes = {
        "attention heads": config.num_attention_heads,
        "heads of keys and values": getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
        "feed-forward columns": config.intermediate_size,
    }
    for name, count in sizes.items():
        if count % size:
            able = [k for k in range(1, count + 1) if all(each % k == 0 for each in sizes.values())]
            message = f"train_engine.tensor_parallel: {count} {name} do not divide by {size}; of this model {', '.join(map(str, able))} do"
            raise UserError(message)


def cut(model: Any, mesh: DeviceMesh) -> None:
    """Every weight of the plan becomes this rank's part of it; what is cut of rank 0's or of a meta model is cut alike."""
    base = model.base_model
    styles = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}
    plan = {
        name: styles[style]() for name, style in model.config.get_text_config().base_model_tp_plan.items() if style in styles
    }
    parallelize_module(base, mesh, plan, src_data_rank=None)
    embedding, output = model.get_input_embeddings(), model.get_output_embeddings()
    tied = output is not None and output.weight is embedding.weight
    name = next(name for name, module in base.named_modules() if module is embedding)
    parallelize_module(base, mesh, {name: RowwiseParallel(input_layouts=Replicate())}, src_data_rank=None)
    if output is not None:
        weight = embedding.weight if tied else None
        if weight is None:
            weight = torch.nn.Parameter(distribute_tensor(output.weight.detach(), mesh, [Shard(0)], src_data_rank=None))
        output.weight = weight


def partial_weights(model: Any) -> list[torch.nn.Parameter]:
    """Those whose gradients are to be added up over the tensor group."""
    patterns = [name for name, style in model.config.get_text_config().base_model_tp_plan.items() if style == _PARTIAL]
    named = model.base_model.named_parameters()
    return [p for name, p in named if any(fnmatch.fnmatch(name.rpartition(".")[0], pattern) for pattern in patterns)]


def add_up(params: list[torch.nn.Parameter], group: Any) -> None:
    for p in params:
        if p.grad is not None:
            dist.all_reduce(local(p.grad), group=group)
