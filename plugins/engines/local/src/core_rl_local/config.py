"""Options of the local engines. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.train.config import TransformersConfig

_at_least: Any = attrs.validators.ge


@attrs.frozen(kw_only=True)
class LocalTrainConfig(TransformersConfig):
    """Training on one device. The precision is `model.dtype`."""

    device: str = attrs.field(default="auto", metadata={"help": "cpu, cuda, cuda:N; auto is cuda where there is one"})
    weight_layout: Literal["auto", "row", "column"] = attrs.field(
        default="auto",
        metadata={"help": "how matrices lie in memory; column makes decoding on a CPU much faster, and auto takes it there"},
    )


@attrs.frozen(kw_only=True)
class LocalRolloutConfig:
    """Sampling on the train engine's device and weights."""

    max_running_sequences: int = attrs.field(
        default=256,
        validator=_at_least(1),
        metadata={"help": "sequences decoded at once; a finished one's place is used again"},
    )
    cache_gb: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.gt(0.0)),
        metadata={
            "help": "GB of keys and values: where sequences could grow beyond it, fewer are decoded at once, but at least one; null: 4 on "
            "a CPU, a third of the memory of a GPU"
        },
    )
    max_prefill_tokens: int = attrs.field(
        default=2048, validator=_at_least(1), metadata={"help": "prompt tokens computed at once; a longer prompt goes alone"}
    )
