"""Registers the loss `ce_gppo`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="ce_gppo",
            target="core_rl_example_ce_gppo.loss:CeGppo",
            config="core_rl_example_ce_gppo.config:CeGppoConfig",
            summary="PPO's clip, but tokens beyond it keep a bounded gradient (2509.20712)",
            paper="2509.20712",
        )
    ]
