"""Registers the algorithm and the rejection `m2po`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl import Component, hookimpl

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.errors import Problem


@hookimpl
def core_rl_algorithms() -> list[Component]:
    return [
        Component(
            name="m2po",
            target="core_rl_m2po.config:M2po",
            config="core_rl_m2po.config:M2po",
            summary="second-moment trust in place of a clip, for stale samples",
            paper="2510.01161",
        )
    ]


@hookimpl
def core_rl_rejections() -> list[Component]:
    return [
        Component(
            name="m2po",
            target="core_rl_m2po.m2po:M2po",
            config="core_rl_m2po.config:M2poConfig",
            summary="hold back the tokens that make the batch's second moment large",
            needs=frozenset({"old_logprobs", "rollout_logprobs"}),
            paper="2510.01161",
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_m2po.checks import check

    return check(config)
