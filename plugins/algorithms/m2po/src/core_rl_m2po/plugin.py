"""Registers the algorithm and the rejection `m2po`."""

from __future__ import annotations

from core_rl import Component, hookimpl


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
            summary="leave out the tokens that make the batch's second moment large",
            needs=frozenset({"old_logprobs", "rollout_logprobs"}),
            paper="2510.01161",
        )
    ]
