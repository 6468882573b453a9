"""Options of M2PO. Torch-free."""

from __future__ import annotations

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

    def formula(self) -> str:
        return f"drop the tokens of largest d^2 until mean d^2 < {self.threshold:g}, d = log mu - log pi_old, over the batch"


@attrs.frozen(kw_only=True)
class M2po(AlgorithmConfig):
    """M2PO (2510.01161): no clip; the few tokens that make the batch's second moment large leave the loss. For stale samples."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component(
        "loss", "ppo_clip", help="the plain ratio: the bounds are out of reach", clip_low=1.0, clip_high=1e6
    )
    rejections: tuple[Selection, ...] = components("rejection", ("m2po",), help="filters and weights, applied in this order")
