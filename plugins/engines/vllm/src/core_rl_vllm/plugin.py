"""Registers `vllm`: a rollout engine on vLLM."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_rollout_engines() -> list[Component]:
    return [
        Component(
            name="vllm",
            target="core_rl_vllm.rollout:VllmRolloutEngine",
            config="core_rl_vllm.config:VllmConfig",
            summary="vLLM: servers that it starts, servers at a URL, or in this process",
            provides=frozenset(
                {
                    "rollout_logprobs",
                    "processed_logprobs",
                    "scoring",
                    "weights_disk",
                    "weights_collective",
                    "weights_delta",
                    "lora",
                }
            ),
        )
    ]
