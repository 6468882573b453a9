"""DeepSpeed's configuration: what the engine's options say, with what the user has written in DeepSpeed's own words."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core_rl.errors import UserError
from core_rl_deepspeed.config import DeepSpeedConfig

_PLACE = "train_engine.config"
_BUDGET = "train_engine.max_tokens_per_micro_batch"
OURS: Mapping[str, str] = {
    "train_batch_size": _BUDGET,
    "train_micro_batch_size_per_gpu": _BUDGET,
    "gradient_accumulation_steps": _BUDGET,
    "managed_gradient_accumulation": _BUDGET,
    "gradient_clipping": "train_engine.max_grad_norm",
    "optimizer": "train_engine.optimizer, train_engine.lr, train_engine.betas, …",
    "scheduler": "train_engine.schedule, train_engine.warmup, …",
    "bf16.enabled": "model.dtype",
    "bfloat16": "model.dtype",
    "fp16": "model.dtype",
    "amp": "model.dtype",
    "torch_autocast": "model.dtype",
    "data_types.param_dtype": "model.dtype",
    "activation_checkpointing": "train_engine.gradient_checkpointing",
    "zero_optimization.stage": "train_engine.zero_stage",
    "zero_optimization.cpu_offload": "train_engine.offload_optimizer",
    "zero_optimization.cpu_offload_params": "train_engine.offload_parameters",
    "zero_optimization.offload_optimizer.device": "train_engine.offload_optimizer",
    "zero_optimization.offload_param.device": "train_engine.offload_parameters",
}
"""Keys that the engine sets, and the option that says so here. `auto`, which leaves a key to the program, is what they are."""

NOT_HERE: Mapping[str, str] = {
    "gradient_allreduce_op": "gradients are summed over ranks, with denominators of the whole batch",
    "bf16.bf16_master_weights_and_grads": "master weights are float32",
    "bf16.bf16_optimizer_states": "master weights are float32",
    "zero_optimization.zenflow": "the optimizer steps once for each step of the run",
    "zero_optimization.offload_optimizer.super_offload": "the optimizer steps once for each step of the run",
    "checkpoint": "checkpoints are the engine's own, for any number of ranks",
    **dict.fromkeys(
        ("pipeline", "tensor_parallel", "expert_parallel", "sequence_parallel_size"),
        "ranks are data-parallel; for other kinds take train_engine: megatron",
    ),
    **dict.fromkeys(
        [
            "aio",
            "autotuning",
            "compile",
            "compression_training",
            "curriculum_learning",
            "data_efficiency",
            "elasticity",
            "hybrid_engine",
            "nebula",
            "progressive_layer_drop",
            "sparse_attention",
        ],
        "this engine has no use for it",
    ),
}
"""Keys that DeepSpeed reads and that would change what a step means here, or nothing at all; and why."""


def ds_config(options: DeepSpeedConfig, dtype: str) -> dict[str, Any]:
    """The whole configuration, before DeepSpeed has checked it. `dtype` is the model's.

    Raises:
        UserError: the user's part is not readable, or has a key that is not the user's.
    """
    config = _users(options.config)
    _refuse_keys(config)
    _without_auto(config)
    stage = options.zero_stage
    zero = {"stage": stage, **config.get("zero_optimization", {})}
    for name, where in (("offload_optimizer", options.offload_optimizer), ("offload_param", options.offload_parameters)):
        if where != "none":
            zero[name] = {**zero.get(name, {}), "device": where}
    half = dtype == "bfloat16" and stage > 0  # at stage 0 the engine has master weights of its own
    types = {"grad_accum_dtype": "fp32"} if half else {}
    clips = stage > 0 and options.max_grad_norm is not None
    return {
        "communication_data_type": "fp32",
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,  # torch's fused optimizers step on the CPU too, and need no compiler
        **config,
        "train_micro_batch_size_per_gpu": 1,  # a label: micro-batches are by tokens, and the engine counts them itself
        "gradient_accumulation_steps": 1,
        "gradient_clipping": options.max_grad_norm if clips else 0.0,
        "zero_optimization": zero,
        "bf16": {**config.get("bf16", {}), "enabled": half},
        "data_types": {**types, **config.get("data_types", {})},
    }


def _users(given: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, str):
        return copy.deepcopy(dict(given))
    try:
        found = json.loads(Path(given).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{_PLACE}: expected a mapping or the path of a JSON file; {given}: {error}"
        raise UserError(message) from error
    if not isinstance(found, dict):
        message = f"{_PLACE}: {given} holds no JSON object"
        raise UserError(message)
    return found


def _refuse_keys(config: Mapping[str, Any]) -> None:
    for path, value in _paths(config):
        if path in OURS and value != "auto":
            message = f"{_PLACE}: {path} is set from {OURS[path]}; leave it out here"
            raise UserError(message)
        if path in NOT_HERE:
            message = f"{_PLACE}: {path} cannot be set: {NOT_HERE[path]}"
            raise UserError(message)


def _paths(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        yield f"{before}{name}", value
        if isinstance(value, Mapping):
            yield from _paths(value, f"{before}{name}.")


def _without_auto(config: dict[str, Any]) -> None:
    for name, value in list(config.items()):
        if value == "auto":
            del config[name]
        elif isinstance(value, dict):
            _without_auto(value)
