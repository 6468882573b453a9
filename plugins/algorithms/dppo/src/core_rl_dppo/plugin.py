"""Registers the losses and algorithms `dppo_tv`, `dppo_kl` and `prime`."""

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
        ("dppo_tv", "DppoTv", "a trust region in the total variation of the sampled token", "2602.04879"),
        ("dppo_kl", "DppoKl", "a trust region in the binary KL of the sampled token", "2602.04879"),
        ("prime", "Prime", "prime-rl's default: a total-variation mask and a squared log-ratio", "2602.02276"),
    )
    return [
        Component(
            name=name,
            target=f"core_rl_dppo.config:{cls}",
            config=f"core_rl_dppo.config:{cls}",
            summary=summary,
            paper=paper,
        )
        for name, cls, summary, paper in named
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="dppo_tv",
            target="core_rl_dppo.dppo:DppoTv",
            config="core_rl_dppo.config:DppoTvConfig",
            summary="the ratio, while the token's probability has moved little",
            needs=_ROLLOUT,
            paper="2602.04879",
        ),
        Component(
            name="dppo_kl",
            target="core_rl_dppo.dppo:DppoKl",
            config="core_rl_dppo.config:DppoKlConfig",
            summary="the ratio, while the token's binary KL is small",
            needs=_ROLLOUT,
            paper="2602.04879",
        ),
        Component(
            name="prime",
            target="core_rl_dppo.prime:Prime",
            config="core_rl_dppo.config:PrimeConfig",
            summary="a masked ratio, and a squared log-ratio that holds the policy near",
            needs=_ROLLOUT,
            paper="2602.02276",
        ),
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_dppo.checks import check

    return check(config)
