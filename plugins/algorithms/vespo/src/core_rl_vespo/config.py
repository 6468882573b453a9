"""Options of VESPO. Torch-free."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component

_positive = attrs.validators.gt(0.0)


@attrs.frozen(kw_only=True)
class VespoConfig:
    """A smooth weight of the sequence's ratio. See `core_rl_vespo.vespo`."""

    k_positive: float = attrs.field(default=2.0, validator=_positive, metadata={"help": "the exponent where A >= 0"})
    lambda_positive: float = attrs.field(default=3.0, validator=_positive, metadata={"help": "the decay where A >= 0"})
    k_negative: float = attrs.field(default=3.0, validator=_positive, metadata={"help": "the exponent where A < 0"})
    lambda_negative: float = attrs.field(default=2.0, validator=_positive, metadata={"help": "the decay where A < 0"})
    behaviour: Literal["rollout", "old"] = attrs.field(
        default="rollout", metadata={"help": "the policy that the ratio is taken to: the rollout engine's, or the old one"}
    )

    def formula(self) -> str:
        below = "mu" if self.behaviour == "rollout" else "pi_old"
        pairs = f"(k, lam) = ({self.k_positive:g}, {self.lambda_positive:g}) for A >= 0, else "
        pairs += f"({self.k_negative:g}, {self.lambda_negative:g})"
        return f"l = -sg(W^k e^(lam (1 - W))) A log pi, W = prod_t pi/{below}, {pairs}"


@attrs.frozen(kw_only=True)
class Vespo(AlgorithmConfig):
    """VESPO (2602.10693): a weight of the whole sequence's ratio that peaks near 1 and fades on both sides; token mean."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "vespo", help="the policy loss of a token")
    aggregation: Selection = component("aggregation", "token-mean", help="mean over all tokens")
