"""Registers the algorithms `ppo` and `vapo` and their parts: the advantage `gae`, the loss `positive_nll`."""

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
            name="ppo",
            target="core_rl_ppo.config:Ppo",
            config="core_rl_ppo.config:Ppo",
            summary="a critic, generalised advantages, clipped ratio, KL in the reward",
            paper="1707.06347",
        ),
        Component(
            name="vapo",
            target="core_rl_ppo.config:Vapo",
            config="core_rl_ppo.config:Vapo",
            summary="PPO for long answers: critic first, lambda by length, clip-higher, NLL of what was right",
            paper="2504.05118",
        ),
    ]


@hookimpl
def core_rl_advantages() -> list[Component]:
    return [
        Component(
            name="gae",
            target="core_rl_ppo.gae:Gae",
            config="core_rl_ppo.config:GaeConfig",
            summary="generalised advantages from a critic's values, over tokens or turns",
            needs=frozenset({"rewards", "values"}),
            paper="1506.02438",
        )
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="positive_nll",
            target="core_rl_ppo.positive_nll:PositiveNll",
            config="core_rl_ppo.config:PositiveNllConfig",
            summary="imitation of the samples that were right",
            needs=frozenset({"rewards"}),
            paper="2504.05118",
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_ppo.checks import check

    return check(config)
