"""Options of the train engine `deepspeed`. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from core_rl.train.config import TransformersConfig


def _offload_needs_stages(instance: DeepSpeedConfig, attribute: attrs.Attribute[Any], value: str) -> None:
    least = {"offload_optimizer": 1, "offload_parameters": 3}[attribute.name]
    if value != "none" and instance.zero_stage < least:
        message = f"{attribute.name}={value} needs zero_stage {least} or more, found {instance.zero_stage}"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class DeepSpeedConfig(TransformersConfig):
    """Training by DeepSpeed. The precision of the computation is `model.dtype`; master weights are float32."""

    zero_stage: Literal[0, 1, 2, 3] = attrs.field(
        default=3,
        metadata={"help": "what ranks share: 0 nothing, 1 optimizer and master weights, 2 gradients too, 3 the weights too"},
    )
    offload_optimizer: Literal["none", "cpu"] = attrs.field(
        default="none",
        validator=_offload_needs_stages,
        metadata={"help": "cpu keeps optimizer and master weights in the host's memory and steps there; from zero_stage 1"},
    )
    offload_parameters: Literal["none", "cpu"] = attrs.field(
        default="none",
        validator=_offload_needs_stages,
        metadata={"help": "cpu keeps the shards of the weights in the host's memory; zero_stage 3"},
    )
    config: Mapping[str, Any] | str | None = attrs.field(
        default=None,
        metadata={"help": "DeepSpeed's own configuration, a mapping or the path of a JSON file, for what has no option here"},
    )
    device: Literal["auto", "cpu", "cuda"] = attrs.field(
        default="auto", metadata={"help": "auto is the rank's GPU where there is one"}
    )
