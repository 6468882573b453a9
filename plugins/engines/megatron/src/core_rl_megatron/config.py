"""Options of the megatron engine. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.train.config import OptimizerConfig

_at_least_one: Any = attrs.validators.ge(1)


@attrs.frozen(kw_only=True)
class MegatronConfig(OptimizerConfig):
    """How the model is spread over ranks. What is left of them is data parallel. The precision is `model.dtype`."""

    tensor_parallel: int = attrs.field(
        default=1, validator=_at_least_one, metadata={"help": "ranks that share each matrix, each with some heads and columns"}
    )
    pipeline_parallel: int = attrs.field(
        default=1, validator=_at_least_one, metadata={"help": "stages of layers, each on ranks of its own"}
    )
    virtual_pipeline: int = attrs.field(
        default=1,
        validator=_at_least_one,
        metadata={"help": "parts of each stage; above 1 the interleaved schedule, with less idle time and more messages"},
    )
    sequence_parallel: bool = attrs.field(
        default=False,
        metadata={"help": "tensor-parallel ranks share the tokens of norms and residuals too: less memory; experts need it"},
    )
    context_parallel: int = attrs.field(
        default=1, validator=_at_least_one, metadata={"help": "ranks that share a sequence; only 1, see the plugin's README"}
    )
    expert_parallel: int = attrs.field(
        default=1, validator=_at_least_one, metadata={"help": "ranks that share the experts of a mixture, each with whole ones"}
    )
    distributed_optimizer: bool | None = attrs.field(
        default=None,
        metadata={
            "help": "data-parallel ranks share the optimizer's state and the master weights; null: with adamw, which can"
        },
    )
    recompute: Literal["none", "selective", "full"] = attrs.field(
        default="none",
        metadata={
            "help": "computed again in the backward pass: attention alone, or whole layers (less memory, a third more time)"
        },
    )
    max_tokens_per_micro_batch: int = attrs.field(
        default=2048, validator=_at_least_one, metadata={"help": "tokens computed at once, padding counted"}
    )
    logits_memory_mb: int = attrs.field(
        default=512,
        validator=_at_least_one,
        metadata={"help": "logits of a rank that exist at once; beyond it they come in chunks, computed twice"},
    )
    device: Literal["auto", "cuda", "cpu"] = attrs.field(
        default="auto", metadata={"help": "megatron-core computes on GPUs; cpu is for tests"}
    )

    @property
    def shares_optimizer(self) -> bool:
        return self.optimizer == "adamw" if self.distributed_optimizer is None else self.distributed_optimizer
