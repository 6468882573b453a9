"""Registers the loss `decoupled_ppo` and the algorithms `decoupled_ppo` and `a3po`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl import Component, hookimpl

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.errors import Problem


@hookimpl
def core_rl_algorithms() -> list[Component]:
    named = (
        ("decoupled_ppo", "DecoupledPpo", "the clip around a recent policy, whatever older one has sampled", "2505.24298"),
        ("a3po", "A3po", "decoupled PPO without a forward pass for the proximal policy", "2512.06547"),
    )
    return [
        Component(
            name=name,
            target=f"core_rl_decoupled.config:{cls}",
            config=f"core_rl_decoupled.config:{cls}",
            summary=summary,
            paper=paper,
        )
        for name, cls, summary, paper in named
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="decoupled_ppo",
            target="core_rl_decoupled.decoupled_ppo:DecoupledPpo",
            config="core_rl_decoupled.config:DecoupledPpoConfig",
            summary="PPO's clip around a proximal policy, weighted for the policy that sampled",
            needs=frozenset({"rollout_logprobs"}),
            paper="2505.24298",
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_decoupled.checks import check

    return check(config)
