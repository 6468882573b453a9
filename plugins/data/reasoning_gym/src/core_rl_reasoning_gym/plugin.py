"""Registers the data source `reasoning_gym` and the reward `reasoning_gym`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_data() -> list[Component]:
    return [
        Component(
            name="reasoning_gym",
            target="core_rl_reasoning_gym.data:ReasoningGymData",
            config="core_rl_reasoning_gym.config:DataConfig",
            summary="procedural tasks of reasoning-gym, one or a mixture",
        )
    ]


@hookimpl
def core_rl_rewards() -> list[Component]:
    return [
        Component(
            name="reasoning_gym",
            target="core_rl_reasoning_gym.reward:ReasoningGymReward",
            config="core_rl_reasoning_gym.config:RewardConfig",
            summary="the score of the task's own scorer in reasoning-gym",
        )
    ]
