"""Registers the data sources `pairs` and `labelled`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_data() -> list[Component]:
    return [
        Component(
            name="pairs",
            target="core_rl_pairs.pairs:PairsData",
            config="core_rl_pairs.config:PairsConfig",
            summary="pairs of a preferred and a rejected completion, from files and data sets",
            provides=frozenset({"pairs"}),
        ),
        Component(
            name="labelled",
            target="core_rl_pairs.labelled:LabelledData",
            config="core_rl_pairs.config:LabelledConfig",
            summary="completions marked good or bad, from files and data sets",
            provides=frozenset({"labelled"}),
        ),
    ]
