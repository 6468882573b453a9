"""Registers the loss and the algorithm `vespo`."""

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
            name="vespo",
            target="core_rl_vespo.config:Vespo",
            config="core_rl_vespo.config:Vespo",
            summary="a smooth weight of the sequence ratio in place of the clip",
            paper="2602.10693",
        )
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="vespo",
            target="core_rl_vespo.vespo:Vespo",
            config="core_rl_vespo.config:VespoConfig",
            summary="policy gradient with a smooth weight of the sequence's ratio",
            needs=frozenset({"rollout_logprobs"}),
            paper="2602.10693",
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_vespo.checks import check

    return check(config)
