"""Registers the loss `gspo` and the algorithms `gspo`, `gspo_token`, `luspo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl import Component, hookimpl

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.errors import Problem


@hookimpl
def core_rl_algorithms() -> list[Component]:
    named = (
        ("gspo", "Gspo", "clipped ratios of whole sequences", "2507.18071"),
        ("gspo_token", "GspoToken", "GSPO with a gradient for each token's own advantage", "2507.18071"),
        ("luspo", "Luspo", "GSPO whose sequences count by their length", "2602.05261"),
    )
    return [
        Component(
            name=name,
            target=f"core_rl_gspo.config:{cls}",
            config=f"core_rl_gspo.config:{cls}",
            summary=summary,
            paper=paper,
        )
        for name, cls, summary, paper in named
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="gspo",
            target="core_rl_gspo.gspo:Gspo",
            config="core_rl_gspo.config:GspoConfig",
            summary="the clipped surrogate on the geometric mean of a sequence's ratios",
            paper="2507.18071",
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_gspo.checks import check

    return check(config)
