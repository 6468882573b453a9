"""Registers the loss and the algorithm `sapo`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_algorithms() -> list[Component]:
    return [
        Component(
            name="sapo",
            target="core_rl_sapo.config:Sapo",
            config="core_rl_sapo.config:Sapo",
            summary="a soft gate in place of the clip",
            paper="2511.20347",
        )
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="sapo",
            target="core_rl_sapo.sapo:Sapo",
            config="core_rl_sapo.config:SapoConfig",
            summary="a sigmoid gate on the ratio in place of the clip",
            paper="2511.20347",
        )
    ]
