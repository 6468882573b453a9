"""Options of the vllm engine. vLLM-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.serving.config import ServerConfig


@attrs.frozen(kw_only=True)
class VllmConfig(ServerConfig):
    """Where vLLM runs, and its own options."""

    mode: Literal["server", "inline"] = attrs.field(
        default="server", metadata={"help": "server: processes of its own, by HTTP; inline: an engine of this process"}
    )
    args: dict[str, Any] = attrs.field(
        factory=dict,
        metadata={"help": "vLLM's own options by their own names (tensor_parallel_size: 2, gpu_memory_utilization: 0.8, …)"},
    )
    lora_adapter: str | None = attrs.field(
        default=None, metadata={"help": "a folder with a peft adapter, through which every completion is sampled"}
    )
