"""Registers `grpo`, `dr_grpo`, `lite_ppo`, `grpo_loo` and their parts: `group_norm`, `ppo_clip`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl import Component, hookimpl

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.errors import Problem


@hookimpl
def core_rl_algorithms() -> list[Component]:
    return [
        Component(
            name="grpo",
            target="core_rl_grpo.config:Grpo",
            config="core_rl_grpo.config:Grpo",
            summary="group-normalised rewards, clipped ratio, KL in the loss (2402.03300)",
            paper="2402.03300",
        ),
        Component(
            name="dr_grpo",
            target="core_rl_grpo.config:DrGrpo",
            config="core_rl_grpo.config:DrGrpo",
            summary="GRPO without the two biases of length and of standard deviation (2503.20783)",
            paper="2503.20783",
        ),
        Component(
            name="lite_ppo",
            target="core_rl_grpo.config:LitePpo",
            config="core_rl_grpo.config:LitePpo",
            summary="group mean, standard deviation of the batch, mean over tokens",
            paper="2508.08221",
        ),
        Component(
            name="grpo_loo",
            target="core_rl_grpo.config:GrpoLoo",
            config="core_rl_grpo.config:GrpoLoo",
            summary="GRPO whose mean and standard deviation are those of a prompt's other samples",
        ),
    ]


@hookimpl
def core_rl_advantages() -> list[Component]:
    return [
        Component(
            name="group_norm",
            target="core_rl_grpo.group_norm:GroupNorm",
            config="core_rl_grpo.config:GroupNormConfig",
            summary="reward less the mean, over the standard deviation, of the group or the batch",
            paper="2402.03300",
            needs=frozenset({"rewards", "group"}),
        )
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="ppo_clip",
            target="core_rl_grpo.ppo_clip:PpoClip",
            config="core_rl_grpo.config:PpoClipConfig",
            summary="the clipped surrogate of PPO, with an optional bound for negative advantages (1707.06347)",
            paper="1707.06347",
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_grpo.checks import check

    return check(config)
