"""Registers the loss and the algorithm `gmpo`."""

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
            name="gmpo",
            target="core_rl_gmpo.config:Gmpo",
            config="core_rl_gmpo.config:Gmpo",
            summary="the geometric mean of token ratios, each clipped in log space",
            paper="2507.20673",
        )
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="gmpo",
            target="core_rl_gmpo.gmpo:Gmpo",
            config="core_rl_gmpo.config:GmpoConfig",
            summary="the geometric mean of a sequence's clipped token ratios",
            paper="2507.20673",
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_gmpo.checks import check

    return check(config)
