"""Options of the sglang engine. SGLang-free."""

from __future__ import annotations

from typing import Any

import attrs

from core_rl.serving.config import ServerConfig


@attrs.frozen(kw_only=True)
class SglangConfig(ServerConfig):
    """Where SGLang runs, and its own options."""

    args: dict[str, Any] = attrs.field(
        factory=dict,
        metadata={"help": "SGLang's own options by their own names (tp_size: 2, mem_fraction_static: 0.8, …)"},
    )
