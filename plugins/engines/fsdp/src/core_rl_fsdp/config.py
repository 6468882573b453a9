"""Options of the train engine `fsdp`. Torch-free."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.train.config import TransformersConfig


@attrs.frozen(kw_only=True)
class FsdpConfig(TransformersConfig):
    """Training on shards (torch FSDP2). The precision of the computation is `model.dtype`; the shards are float32."""

    device: Literal["auto", "cpu", "cuda"] = attrs.field(
        default="auto", metadata={"help": "auto is the rank's GPU where there is one"}
    )
    wrap: tuple[str, ...] = attrs.field(
        default=(), metadata={"help": "classes of layers that are gathered one by one; empty takes the model's decoder layers"}
    )
    attention: Literal["packed", "varlen", "sdpa", "eager", "flex", "flash_attention_2", "flash_attention_3"] = attrs.field(
        default="packed",
        metadata={
            "help": "packed is core-rl's own, the only one that computes a group's prompt once; varlen is torch's kernel; the others "
            "are transformers'"
        },
    )
    compile: bool = attrs.field(
        default=False,
        metadata={"help": "torch.compile of every decoder layer, but for its attention; the first steps are slow"},
    )
    tensor_parallel: int = attrs.field(
        default=1,
        validator=attrs.validators.ge(1),
        metadata={"help": "ranks that share every matrix, by the model's own plan in transformers"},
    )
    ulysses: int = attrs.field(
        default=1,
        validator=attrs.validators.ge(1),
        metadata={
            "help": "ranks that share the tokens of a micro-batch, each with a part of the heads in attention: long sequences"
        },
    )
    reshard_after_forward: bool = attrs.field(
        default=True, metadata={"help": "free a layer's gathered weights after its forward pass: less memory, one more gather"}
    )
    cpu_offload: bool = attrs.field(
        default=False,
        metadata={"help": "keep shards and optimizer on the CPU, and copy layers to the GPU when they are computed"},
    )
