from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_algorithms() -> list[Component]:
    place = "nudge_rl.config:Nudge"
    return [Component(name="nudge", target=place, config=place, summary="pushes by the sign alone", paper="2402.03300")]


@hookimpl(specname="core_rl_advantages")
def advantages() -> list[Component]:
    return [
        Component(
            name="sign",
            target="nudge_rl.sign:Sign",
            config="nudge_rl.config:SignConfig",
            summary="the sign of a reward's distance from the mean of its group",
            needs=frozenset({"rewards", "group"}),
        )
    ]


@hookimpl
def core_rl_data() -> tuple[Component, ...]:
    return (
        Component(
            name="sums",
            target="nudge_rl.sums:Sums",
            config="nudge_rl.config:SumsConfig",
            summary="sums of two small numbers",
            provides=frozenset({"prompts"}),
        ),
    )
