"""Registers the reward `function`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_rewards() -> list[Component]:
    return [
        Component(
            name="function",
            target="core_rl_function.reward:FunctionReward",
            config="core_rl_function.config:FunctionConfig",
            summary="a Python function of your own, by module:name or path/to/file.py:name",
        )
    ]
