"""Registers the reward `choice`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_rewards() -> list[Component]:
    return [
        Component(
            name="choice",
            target="core_rl_choice.reward:ChoiceReward",
            config="core_rl_choice.config:ChoiceConfig",
            summary="is the right option of a multiple-choice question chosen",
        )
    ]
