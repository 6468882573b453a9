"""Components and options that are wrong."""

from __future__ import annotations

import attrs

from core_rl import Component, hookimpl
from core_rl.config.algorithm import AlgorithmConfig
from core_rl.roles.scoring import RewardOutcome, Verdict


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(name="mine"),  # E: Missing named argument "target"
        Component("mine", "mine:Loss"),  # E: Too many positional arguments
        Component(name="mine", target="mine:Loss", sumary="a loss"),  # E: did you mean "summary"
        Component(name=b"mine", target="mine:Loss"),  # E: expected "str"
        Component(name="mine", target=int),  # E: expected "str"
        Component(name="mine", target="mine:Loss", needs={1}),  # E: expected "str"
        "mine",  # E: expected "Component"
    ]


@attrs.frozen(kw_only=True)
class Mine(AlgorithmConfig):
    """An algorithm whose option has another type than the one it stands for."""

    group_size: str = "8"  # E: Incompatible types in assignment


Mine(group_sise="4")  # E: did you mean "group_size"
RewardOutcome(1.0)  # E: Too many positional arguments
RewardOutcome(value="good")  # E: expected "float"
Verdict(keep=[True])  # E: expected "Tensor"
