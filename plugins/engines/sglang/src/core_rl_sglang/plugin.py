"""Registers `sglang`: a rollout engine on SGLang."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_rollout_engines() -> list[Component]:
    return [
        Component(
            name="sglang",
            target="core_rl_sglang.rollout:SglangRolloutEngine",
            config="core_rl_sglang.config:SglangConfig",
            summary="SGLang: servers that it starts, or servers at a URL",
            provides=frozenset(
                {
                    "rollout_logprobs",
                    "processed_logprobs",
                    "scoring",
                    "weights_disk",
                    "weights_collective",
                    "weights_delta",
                }
            ),
        )
    ]
