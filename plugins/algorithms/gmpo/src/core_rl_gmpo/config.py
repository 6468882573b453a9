"""Options of GMPO. Torch-free."""

from __future__ import annotations

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component


@attrs.frozen(kw_only=True)
class GmpoConfig:
    """The geometric mean of clipped token ratios. See `core_rl_gmpo.gmpo`."""

    clip_low: float = attrs.field(
        default=0.4,
        validator=attrs.validators.ge(0.0),
        metadata={"help": "a log-ratio counts at least minus this, where A < 0"},
    )
    clip_high: float = attrs.field(
        default=0.4, validator=attrs.validators.ge(0.0), metadata={"help": "a log-ratio counts at most this, where A > 0"}
    )

    def formula(self) -> str:
        clip = f"clip(x, -{self.clip_low:g}, {self.clip_high:g})"
        return f"l_it = -A exp(1/L_i sum_t y_t), y = min(x, {clip}) for A > 0, max(x, {clip}) for A < 0, x = log r"


@attrs.frozen(kw_only=True)
class Gmpo(AlgorithmConfig):
    """GMPO (2507.20673): the geometric mean of token ratios, each clipped in log space; group mean and standard deviation."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "gmpo", help="the policy loss of a token")
    aggregation: Selection = component("aggregation", "seq-mean-token-mean", help="mean over sequences")
