"""Options of policy gradients with a detached weight: CISPO, AIPO, TOPR, truncated rollout weights. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component
from core_rl.numerics.names import RatioLevel

_not_negative = attrs.validators.ge(0.0)
_optional_bound = attrs.validators.optional(_not_negative)


@attrs.frozen(kw_only=True)
class CispoConfig:
    """Policy gradient weighted by the clipped ratio, which has no gradient itself. See `core_rl_cispo.cispo`."""

    clip_low: float | None = attrs.field(
        default=None, validator=_optional_bound, metadata={"help": "the weight is at least 1 - clip_low; null: no lower bound"}
    )
    clip_high: float = attrs.field(
        default=4.0, validator=_not_negative, metadata={"help": "the weight is at most 1 + clip_high"}
    )
    bounds: Literal["relative", "absolute"] = attrs.field(
        default="relative",
        metadata={"help": "absolute: the weight lies between clip_low and clip_high themselves, as in TRL and ScaleRL"},
    )

    tau: float = attrs.field(
        default=0.0,
        validator=_not_negative,
        metadata={
            "help": "takes tau times the log-ratio from the advantage (Kimi-K2's hold on the policy, as in ART); 0: none"
        },
    )

    @property
    def low(self) -> float:
        if self.clip_low is None:
            return 0.0
        return self.clip_low if self.bounds == "absolute" else 1 - self.clip_low

    @property
    def high(self) -> float:
        return self.clip_high if self.bounds == "absolute" else 1 + self.clip_high

    @clip_high.validator
    def _check_order(self, _: attrs.Attribute[Any], value: float) -> None:
        if self.bounds == "absolute" and self.clip_low is not None and value < self.clip_low:
            message = f"must be at least clip_low, {self.clip_low:g}, found {value:g}"
            raise ValueError(message)

    def formula(self) -> str:
        advantage = "A" if self.tau == 0 else f"(A - {self.tau:g} sg(log r))"
        return f"l = -sg(clip(r, {self.low:g}, {self.high:g})) {advantage} log pi"


@attrs.frozen(kw_only=True)
class AipoConfig:
    """Policy gradient weighted by the truncated ratio to the rollout policy. See `core_rl_cispo.aipo`."""

    cap: float = attrs.field(
        default=2.0, validator=attrs.validators.gt(0.0), metadata={"help": "the weight is at most this; 2 to 10 in the paper"}
    )
    behaviour: Literal["rollout", "old"] = attrs.field(
        default="rollout",
        metadata={"help": "the policy that the ratio is taken to: the rollout engine's, or the old one (Cosmos-RL)"},
    )
    differentiable: bool = attrs.field(
        default=False, metadata={"help": "the gradient goes through the ratio and stops at the cap, as in Cosmos-RL"}
    )

    def formula(self) -> str:
        ratio = "w = pi/mu" if self.behaviour == "rollout" else "w = pi/pi_old"
        weight = f"min(w, {self.cap:g})"
        return f"l = -{weight} A, {ratio}" if self.differentiable else f"l = -sg({weight}) A log pi, {ratio}"


@attrs.frozen(kw_only=True)
class ToprConfig:
    """Good samples as they are, bad ones with a truncated weight. See `core_rl_cispo.topr`."""

    level: RatioLevel = attrs.field(default="sequence", metadata={"help": "of the ratio; token in ROLL"})
    cap: float = attrs.field(
        default=1.0, validator=attrs.validators.gt(0.0), metadata={"help": "a bad sample's weight is at most this"}
    )
    sign: Literal["reward", "advantage"] = attrs.field(
        default="reward", metadata={"help": "what says that a sample is good: a reward above 0, or an advantage above 0"}
    )
    positive_weight: float = attrs.field(default=1.0, validator=_not_negative, metadata={"help": "of good samples"})
    negative_weight: float = attrs.field(default=1.0, validator=_not_negative, metadata={"help": "of bad samples"})

    def formula(self) -> str:
        good, bad = f"{self.positive_weight:g}", f"{self.negative_weight:g} sg(min(r, {self.cap:g}))"
        return f"l = -({self.sign} > 0 ? {good} : {bad}) A log pi, r of the {self.level}"


@attrs.frozen(kw_only=True)
class RolloutIsConfig:
    """Policy gradient weighted by the ratio to the rollout policy, where it lies in a band. See `core_rl_cispo.rollout_is`."""

    clip_low: float = attrs.field(
        default=0.2, validator=[_not_negative, attrs.validators.le(1.0)], metadata={"help": "the band begins at 1 - clip_low"}
    )
    clip_high: float = attrs.field(default=0.2, validator=_not_negative, metadata={"help": "the band ends at 1 + clip_high"})

    def formula(self) -> str:
        return f"l = -sg(w [{1 - self.clip_low:g} < w < {1 + self.clip_high:g}]) A log pi"


_LOSS = "the policy loss of a token"


@attrs.frozen(kw_only=True)
class Cispo(AlgorithmConfig):
    """CISPO (2506.13585): every token keeps its gradient, with a clipped weight; group mean and deviation, token mean, no KL."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "cispo", help=_LOSS)


@attrs.frozen(kw_only=True)
class Aipo(AlgorithmConfig):
    """AIPO (2505.24034): the truncated ratio of the current policy to the one that sampled; no old policy between them."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "aipo", help=_LOSS)


@attrs.frozen(kw_only=True)
class Topr(AlgorithmConfig):
    """TOPR (2503.14286): good samples are imitated, bad ones pushed away with a truncated weight. Rewards are good above 0, bad below.

    The gradient is that of whole sequences' log-probabilities: the sum over tokens.
    """

    advantage: Selection = component(
        "advantage", "group_norm", help="how rewards become per-token advantages", mean_level="none", std_level="none"
    )
    loss: Selection = component("loss", "topr", help=_LOSS)
    aggregation: Selection = component("aggregation", "seq-mean-token-sum", help="sum over tokens, mean over sequences")
