"""Registers the loss `dro` and the algorithms `dro` and `kimi`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_algorithms() -> list[Component]:
    named = (
        ("dro", "Dro", "a squared log-ratio in place of the clip", "2405.19107"),
        ("kimi", "Kimi", "Kimi k1.5: rewards less the group's mean, and a squared log-ratio", "2501.12599"),
    )
    return [
        Component(
            name=name,
            target=f"core_rl_dro.config:{cls}",
            config=f"core_rl_dro.config:{cls}",
            summary=summary,
            paper=paper,
        )
        for name, cls, summary, paper in named
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="dro",
            target="core_rl_dro.dro:Dro",
            config="core_rl_dro.config:DroConfig",
            summary="policy gradient with a squared log-ratio in place of a clip",
            formula="l = -A log pi + beta/(2 L_i) (sum_t log pi - log pi_old)^2",
            paper="2405.19107",
        )
    ]
