"""Registers the algorithm `dapo` and the reward `overlong`."""

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
            name="dapo",
            target="core_rl_dapo.config:Dapo",
            config="core_rl_dapo.config:Dapo",
            summary="GRPO with clip-higher, mean over tokens, dynamic sampling and an overlong penalty",
            paper="2503.14476",
        )
    ]


@hookimpl
def core_rl_rewards() -> list[Component]:
    return [
        Component(
            name="overlong",
            target="core_rl_dapo.overlong:Overlong",
            config="core_rl_dapo.config:OverlongConfig",
            summary="a penalty that grows over the last tokens before the longest completion",
            paper="2503.14476",
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_dapo.checks import check

    return check(config)
