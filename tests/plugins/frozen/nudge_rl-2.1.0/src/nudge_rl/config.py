from __future__ import annotations

from typing import Any

import attrs

from core_rl.config.algorithm import AlgorithmConfig, KlConfig
from core_rl.config.selection import Selection, component


@attrs.frozen(kw_only=True)
class SignConfig:
    step: float = attrs.field(
        default=1.0, validator=attrs.validators.gt(0), metadata={"help": "the size of every advantage"}
    )


@attrs.frozen(kw_only=True)
class SumsConfig:
    largest: int = attrs.field(default=9, metadata={"help": "of both numbers"})
    held_out: int = attrs.field(default=4, metadata={"help": "sums kept for evaluation"})

    @held_out.validator
    def _check(self, _: attrs.Attribute[Any], value: int) -> None:
        if not 0 <= value < (self.largest + 1) ** 2:
            raise ValueError(f"must leave something to train on, found {value}")


@attrs.frozen(kw_only=True)
class Nudge(AlgorithmConfig):
    """The sign of the advantage with PPO's clip and a KL in the loss."""

    advantage: Selection = component("advantage", "sign", help="how rewards become advantages")
    loss: Selection = component("loss", "ppo_clip", help="the policy loss of a token", clip_high=0.3)
    aggregation: Selection = component("aggregation", "seq-mean-token-sum", help="how losses become one number")
    kl: KlConfig = attrs.field(factory=lambda: KlConfig(coef=0.01), metadata={"help": "distance to the reference"})
