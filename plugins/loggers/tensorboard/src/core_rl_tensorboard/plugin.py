"""Registers the logger `tensorboard`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_loggers() -> list[Component]:
    return [
        Component(
            name="tensorboard",
            target="core_rl_tensorboard.logger:TensorBoardLogger",
            config="core_rl_tensorboard.config:TensorBoardConfig",
            summary="event files for TensorBoard: metrics, completions, the run file",
        )
    ]
