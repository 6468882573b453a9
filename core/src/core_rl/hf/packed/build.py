"""A transformers model as train engines build it, in two halves: between them an engine probes it and lays out its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core_rl.hf.load import load_model
from core_rl.hf.packed.adapters import add_adapters
from core_rl.hf.packed.values import add_value_head, load_value_head, score_set_aside
from core_rl.hf.packed.weights import enable_checkpointing, switch_off_dropout
from core_rl.hf.values import load_value_model

if TYPE_CHECKING:
    import torch

    from core_rl.hf.spec import ModelSpec
    from core_rl.roles.train import TrainContext
    from core_rl.train.config import TransformersConfig


def bare_model(context: TrainContext, spec: ModelSpec | None = None) -> Any:
    """With the pretrained weights in float32 and without dropout. `spec` is the context's own unless told otherwise."""
    load = load_value_model if context.heads == "value" else load_model
    model: Any = load(spec or context.model, seed=context.seed)
    switch_off_dropout(model)
    return model


def cast_parameters(model: Any, dtype: torch.dtype) -> None:
    """Not buffers: rotary frequencies are float32 in any precision, or distant positions run together."""
    for param in model.parameters():
        param.data = param.data.to(dtype)


def dress(model: Any, context: TrainContext, options: TransformersConfig) -> Any:
    """Add what is asked for, in place: adapters, a value head beside the output layer, checkpointing.

    Returns:
        peft's view of the model; None without adapters.
    """
    adapted = None
    if options.lora is not None and not context.frozen:
        with score_set_aside(model):
            adapted = add_adapters(model, options.lora, seed=context.seed)
    if context.heads == "both":
        add_value_head(model, seed=context.seed)
        load_value_head(model, context.model)
    if options.gradient_checkpointing:
        enable_checkpointing(model)
    return adapted
