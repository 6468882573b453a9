"""Options of DAPO. Torch-free."""

from __future__ import annotations

from typing import Any

import attrs

from core_rl.config.algorithm import AlgorithmConfig, RefillConfig
from core_rl.config.selection import Selection, component, components

_above: Any = attrs.validators.gt
_optional: Any = attrs.validators.optional


@attrs.frozen(kw_only=True)
class OverlongConfig:
    """A penalty that grows over the last tokens before the longest completion. See `core_rl_dapo.overlong`."""

    max_length: int | None = attrs.field(
        default=None,
        validator=_optional(_above(0)),
        metadata={"help": "L_max, in tokens; null takes sampling.max_new_tokens"},
    )
    cache: int | None = attrs.field(
        default=None,
        validator=_optional(_above(0)),
        metadata={
            "help": "tokens before L_max over which the penalty grows; null takes a fifth of L_max, 4096 of the paper's 20480"
        },
    )
    factor: float = attrs.field(default=1.0, validator=_above(0.0), metadata={"help": "the penalty at L_max"})
    floor: bool = attrs.field(
        default=True, metadata={"help": "-factor is the most that is taken; false goes on growing beyond L_max, as in verl"}
    )

    @cache.validator
    def _check_cache(self, _: attrs.Attribute[Any], value: int | None) -> None:
        if value is not None and self.max_length is not None and value > self.max_length:
            message = f"must be at most max_length, {self.max_length}, found {value}"
            raise ValueError(message)

    def formula(self) -> str:
        longest = "sampling.max_new_tokens" if self.max_length is None else f"{self.max_length}"
        cache = "L_max/5" if self.cache is None else f"{self.cache}"
        floor = f"max(-{self.factor:g}, ...) of " if self.floor else ""
        return f"R = {floor}min(0, {self.factor:g} (L_max - cache - L)/cache), L_max = {longest}, cache = {cache}"


@attrs.frozen(kw_only=True)
class Dapo(AlgorithmConfig):
    """DAPO (2503.14476): clip-higher 0.2 / 0.28, mean over tokens, dynamic sampling, overlong penalty, no KL.

    The paper samples 16 completions of a prompt and takes 16 optimizer steps on a batch: `group_size` and `minibatches` are yours.
    Groups are compared without the overlong penalty, by accuracy as in the paper. Its overlong filtering, in place of the penalty, is
    `rewards: []` and the rejection `truncated`.
    """

    rewards: tuple[Selection, ...] = components(
        "reward", ("overlong",), help="rewards that belong to the algorithm, added to the run's own in training"
    )
    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "ppo_clip", help="the policy loss of a token", clip_low=0.2, clip_high=0.28)
    rejections: tuple[Selection, ...] = components(
        "rejection",
        ({"name": "zero_variance", "without": ["overlong"]},),
        help="filters and weights, applied in this order",
    )
    refill: RefillConfig | None = attrs.field(
        factory=RefillConfig,
        metadata={"help": "sample again for groups that the rejections empty; null: train on what is left"},
    )
