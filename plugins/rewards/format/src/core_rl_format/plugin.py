"""Registers the reward `format`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_rewards() -> list[Component]:
    return [
        Component(
            name="format",
            target="core_rl_format.reward:FormatReward",
            config="core_rl_format.config:FormatConfig",
            summary="does the completion follow a format: a regular expression, think and answer tags, a box, JSON, a proper end",
        )
    ]
