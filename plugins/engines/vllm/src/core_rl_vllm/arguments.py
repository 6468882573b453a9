"""vLLM's own options: what core-rl sets of them, and whether the installed version knows what the user sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core_rl.serving.options import has_gpu, own_options

if TYPE_CHECKING:
    from core_rl.roles.rollout import RolloutContext
    from core_rl_vllm.config import VllmConfig

OURS = frozenset(
    {"model", "tokenizer", "host", "port", "served_model_name", "worker_extension_cls", "logprobs_mode", "api_key"}
)
"""What is told elsewhere in the run file, or must be as it is."""
SERVED = "policy"
ADAPTER = "adapter"


def engine_arguments(options: VllmConfig, context: RolloutContext, folder: str) -> dict[str, Any]:
    """For servers and the engine in process alike.

    Raises:
        UserError: `args` sets what the run file says elsewhere.
    """
    given = own_options(options.args, OURS)
    found: dict[str, Any] = {
        "model": folder,
        "dtype": context.model.dtype,
        "seed": context.seed,
        "trust_remote_code": context.model.trust_remote_code,
        "logprobs_mode": "processed_logprobs",
        "worker_extension_cls": "core_rl_vllm.worker.Extension",
        "enable_prefix_caching": True,
    }
    if context.model.max_length is not None:
        found["max_model_len"] = context.model.max_length
    if options.lora_adapter is not None:
        found["enable_lora"] = True
    if not has_gpu():
        found["enable_chunked_prefill"] = False  # vLLM 0.32 ends there with the first part of a prompt whose request has a seed
    elif options.sleep:
        found["enable_sleep_mode"] = True
    return found | given


def as_flags(arguments: Mapping[str, Any]) -> list[str]:
    """As vLLM's command line has them."""
    flags: list[str] = []
    for name, value in arguments.items():
        flag = name.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, list | tuple):
            flags += [f"--{flag}", *(str(each) for each in value)]
        elif isinstance(value, Mapping):
            flags += [f"--{flag}", json.dumps(value)]
        else:
            flags += [f"--{flag}", str(value)]
    return flags
