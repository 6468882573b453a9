"""Registers the workflow `guess` and the reward of its games."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_workflows() -> list[Component]:
    return [
        Component(
            name="guess",
            target="core_rl_example_guess.workflow:Guess",
            config="core_rl_example_guess.config:GuessConfig",
            summary="a number to guess in several turns, with hints",
        )
    ]


@hookimpl
def core_rl_rewards() -> list[Component]:
    return [
        Component(
            name="guess",
            target="core_rl_example_guess.reward:GuessReward",
            config="core_rl_example_guess.config:GuessRewardConfig",
            summary="how soon the number of the workflow `guess` was found",
        )
    ]
