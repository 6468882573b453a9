"""The model with its adapters and heads, whole and on the CPU, and what is known of it before ZeRO cuts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import torch

from core_rl.hf.packed.build import bare_model, cast_parameters, dress
from core_rl.hf.packed.policy import Policy
from core_rl.hf.packed.probe import probe
from core_rl.hf.packed.values import value_weight

if TYPE_CHECKING:
    from core_rl.roles.train import TrainContext
    from core_rl_deepspeed._shards import Parameter
    from core_rl_deepspeed.config import DeepSpeedConfig


@attrs.frozen(kw_only=True)
class Built:
    """`model` is the transformers model, `adapted` peft's view of it. Numbers are of the whole model."""

    model: Any
    adapted: Any
    policy: Policy
    vocabulary: int
    parameters: int
    shapes: Mapping[str, torch.Size]
    """Of the trainable weights, by name."""

    @property
    def trainable_parameters(self) -> int:
        return sum(shape.numel() for shape in self.shapes.values())

    def trainable(self) -> dict[str, Parameter]:
        return {name: param for name, param in self.model.named_parameters() if param.requires_grad}

    def read_outside(self) -> list[Parameter]:
        """Weights that are read without a call of the layer that has them: of the output layer, and of values."""
        output = self.model.get_output_embeddings()
        found = [] if output is None else [output.weight, getattr(output, "bias", None)]
        return [weight for weight in (*found, self.policy.value_weight) if isinstance(weight, torch.nn.Parameter)]


def build_model(options: DeepSpeedConfig, context: TrainContext) -> Built:
    model = bare_model(context)
    policy = probe(model, logits_memory_mb=options.logits_memory_mb)
    policy.temperature = context.temperature
    adapted = dress(model, context, options)
    cast_parameters(model, getattr(torch, context.model.dtype))
    if context.frozen:
        model.requires_grad_(False)
    policy.value_weight = value_weight(model)
    output = model.get_output_embeddings()
    return Built(
        model=model,
        adapted=adapted,
        policy=policy,
        vocabulary=0 if output is None else output.weight.shape[0],
        parameters=sum(param.numel() for param in model.parameters()),
        shapes={name: param.shape for name, param in model.named_parameters() if param.requires_grad},
    )
