"""Registers the logger `swanlab`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_loggers() -> list[Component]:
    return [
        Component(
            name="swanlab",
            target="core_rl_swanlab.logger:SwanLabLogger",
            config="core_rl_swanlab.config:SwanLabConfig",
            summary="metrics and completions to SwanLab: cloud, local or offline",
        )
    ]
