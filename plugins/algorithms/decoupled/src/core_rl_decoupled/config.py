"""Options of decoupled PPO. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component

_not_negative: Any = attrs.validators.ge(0.0)
_optional_cap: Any = attrs.validators.optional(attrs.validators.gt(0.0))


@attrs.frozen(kw_only=True)
class DecoupledPpoConfig:
    """PPO's clip around a proximal policy, weighted for the policy that sampled. See `core_rl_decoupled.decoupled_ppo`."""

    clip_low: float = attrs.field(
        default=0.2,
        validator=[_not_negative, attrs.validators.le(1.0)],
        metadata={"help": "a ratio to the proximal policy under 1 - clip_low has no gradient when the advantage is negative"},
    )
    clip_high: float = attrs.field(
        default=0.2,
        validator=_not_negative,
        metadata={"help": "a ratio to the proximal policy over 1 + clip_high has no gradient when the advantage is positive"},
    )
    cap: float | None = attrs.field(
        default=5.0,
        validator=_optional_cap,
        metadata={"help": "the largest behaviour weight pi_prox/mu; null: no bound"},
    )
    beyond: Literal["clip", "zero"] = attrs.field(
        default="zero",
        metadata={"help": "a token whose weight is above cap counts 0 (zero: AReaL, Cosmos-RL), or weighs cap (clip)"},
    )

    @beyond.validator
    def _check_beyond(self, _: attrs.Attribute[Any], value: str) -> None:
        if value == "clip" and self.cap is None:
            message = "clip needs a cap: give one, or leave this out"
            raise ValueError(message)

    dual_clip: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.gt(1.0)),
        metadata={
            "help": "the unweighted loss of a negative advantage A is at most dual_clip |A|: AReaL's c_clip; null: no bound"
        },
    )

    def formula(self) -> str:
        weight = "w"
        if self.cap is not None:
            weight = f"min(w, {self.cap:g})" if self.beyond == "clip" else f"w [w <= {self.cap:g}]"
        ratio = f"-min(r A, clip(r, 1-{self.clip_low:g}, 1+{self.clip_high:g}) A), r = pi/pi_prox"
        dual = "" if self.dual_clip is None else f"; A < 0: at most sg({weight}) {self.dual_clip:g} |A|"
        return f"l = sg({weight}) {ratio}, w = pi_prox/mu{dual}"


@attrs.frozen(kw_only=True)
class DecoupledPpo(AlgorithmConfig):
    """Decoupled PPO (AReaL, 2505.24298): the clip holds the policy near a recent one, whatever older one has sampled."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "decoupled_ppo", help="the policy loss of a token")
    proximal: Literal["auto", "recompute", "reuse", "rollout", "loglinear"] = attrs.field(
        default="recompute", metadata={"help": "where the proximal policy's log-probabilities come from: a forward pass"}
    )


@attrs.frozen(kw_only=True)
class A3po(DecoupledPpo):
    """A-3PO (2512.06547): decoupled PPO whose proximal policy lies on the log-linear way from the sampling to the current one."""

    proximal: Literal["auto", "recompute", "reuse", "rollout", "loglinear"] = attrs.field(
        default="loglinear",
        metadata={"help": "where the proximal policy's log-probabilities come from: no forward pass of its own"},
    )
