"""Registers the reward `judge`, and looks whether a run leaves it time enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl import Component, hookimpl
from core_rl.errors import Problem
from core_rl_example_judge.config import JudgeConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


@hookimpl
def core_rl_rewards() -> list[Component]:
    return [
        Component(
            name="judge",
            target="core_rl_example_judge.reward:Judge",
            config="core_rl_example_judge.config:JudgeConfig",
            summary="the score that a judge behind a chat-completions API gives",
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    bound = config.run.reward_timeout_s
    return [
        Problem(
            "",
            f"rewards[{index}].timeout_s",
            f"the judge may take {reward.options.timeout_s:g} s, and a reward has failed after {bound:g}: "
            "raise run.reward_timeout_s well above it (waiting for a free slot and trying again count too)",
        )
        for index, reward in enumerate(config.rewards)
        if isinstance(reward.options, JudgeConfig) and reward.options.timeout_s >= bound
    ]
