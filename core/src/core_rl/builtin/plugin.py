"""The components that the core itself brings: the plainest one of each kind around the engines."""

from __future__ import annotations

from collections.abc import Iterable

from core_rl.component import Component, hookimpl


@hookimpl
def core_rl_loggers() -> Iterable[Component]:
    return [
        Component(
            name="console",
            target="core_rl.builtin.console:Console",
            config="core_rl.builtin.config:ConsoleConfig",
            summary="a live panel on a terminal, one line for each step elsewhere",
        ),
        Component(
            name="jsonl",
            target="core_rl.builtin.jsonl:Jsonl",
            config="core_rl.builtin.config:JsonlConfig",
            summary="metrics.jsonl and samples/*.jsonl in the run's folder",
        ),
    ]


@hookimpl
def core_rl_workflows() -> Iterable[Component]:
    return [
        Component(
            name="single_turn",
            target="core_rl.builtin.single_turn:SingleTurn",
            config="core_rl.builtin.config:SingleTurnConfig",
            summary="one prompt, one completion",
        )
    ]


@hookimpl
def core_rl_launchers() -> Iterable[Component]:
    return [Component(name="inline", target="core_rl.builtin.inline:Inline", summary="every engine in this process")]


@hookimpl
def core_rl_weight_transports() -> Iterable[Component]:
    return [
        Component(
            name="shared",
            target="core_rl.builtin.shared:Shared",
            summary="trainer and sampler read the same tensors: nothing is copied",
            needs=frozenset({"shared_weights"}),
        )
    ]
