"""Registers the losses and algorithms `cispo`, `aipo`, `topr`, and the loss `rollout_is`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl import Component, hookimpl

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.errors import Problem

_ROLLOUT = frozenset({"rollout_logprobs"})


@hookimpl
def core_rl_algorithms() -> list[Component]:
    named = (
        ("cispo", "Cispo", "every token keeps its gradient, with a clipped weight", "2506.13585"),
        ("aipo", "Aipo", "the truncated ratio to the policy that sampled", "2505.24034"),
        ("topr", "Topr", "good samples are imitated, bad ones pushed away with a truncated weight", "2503.14286"),
    )
    return [
        Component(
            name=name,
            target=f"core_rl_cispo.config:{cls}",
            config=f"core_rl_cispo.config:{cls}",
            summary=summary,
            paper=paper,
        )
        for name, cls, summary, paper in named
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="cispo",
            target="core_rl_cispo.cispo:Cispo",
            config="core_rl_cispo.config:CispoConfig",
            summary="policy gradient weighted by the clipped ratio, which has no gradient itself",
            paper="2506.13585",
        ),
        Component(
            name="aipo",
            target="core_rl_cispo.aipo:Aipo",
            config="core_rl_cispo.config:AipoConfig",
            summary="policy gradient weighted by the truncated ratio to the rollout policy",
            needs=_ROLLOUT,
            paper="2505.24034",
        ),
        Component(
            name="topr",
            target="core_rl_cispo.topr:Topr",
            config="core_rl_cispo.config:ToprConfig",
            summary="policy gradient; bad samples with a truncated weight",
            needs=frozenset({"rewards"}),
            paper="2503.14286",
        ),
        Component(
            name="rollout_is",
            target="core_rl_cispo.rollout_is:RolloutIs",
            config="core_rl_cispo.config:RolloutIsConfig",
            summary="policy gradient weighted by the ratio to the rollout policy, inside a band",
            needs=_ROLLOUT,
        ),
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_cispo.checks import check

    return check(config)
