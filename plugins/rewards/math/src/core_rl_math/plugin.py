"""Registers the reward `math`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_rewards() -> list[Component]:
    return [
        Component(
            name="math",
            target="core_rl_math.reward:MathReward",
            config="core_rl_math.config:MathConfig",
            summary="is the final answer mathematically equal to the reference",
        )
    ]
