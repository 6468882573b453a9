"""Options of M2PO. Torch-free."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component, components


@attrs.frozen(kw_only=True)
class M2poConfig:
    """A bound on the second moment of the log-ratios of the batch. See `core_rl_m2po.m2po`."""

    threshold: float = attrs.field(
        default=0.04,
        validator=attrs.validators.gt(0.0),
        metadata={"help": "the mean squared log-ratio of the tokens that are left stays below this"},
    )

    action: Literal["zero", "mask"] = attrs.field(
        default="zero",
        metadata={"help": "a token counts 0 and the denominators stay (the paper), or it leaves them too (AReaL)"},
    )

    def formula(self) -> str:
        rule = f"{self.action} the tokens of largest d^2 until mean d^2 < {self.threshold:g}"
        return f"{rule}, d = log mu - log pi_old, over the batch"


@attrs.frozen(kw_only=True)
class M2po(AlgorithmConfig):
    """M2PO (2510.01161): the ratio to the policy that sampled, with no clip; the few tokens that make the batch's second moment large count 0.

    For stale samples. The loss is pi/mu by way of the old policy: pi/pi_old, times pi_old/mu, and none of the two has a bound.
    """

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component(
        "loss", "decoupled_ppo", help="the plain ratio: the bounds are out of reach", clip_low=1.0, clip_high=1e6, cap=None
    )
    rejections: tuple[Selection, ...] = components("rejection", ("m2po",), help="filters and weights, applied in this order")
