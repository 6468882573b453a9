"""Options of SAPO. Torch-free."""

from __future__ import annotations

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component


@attrs.frozen(kw_only=True)
class SapoConfig:
    """A sigmoid gate on the ratio in place of the clip. See `core_rl_sapo.sapo`."""

    tau_positive: float = attrs.field(
        default=1.0,
        validator=attrs.validators.gt(0.0),
        metadata={"help": "sharpness of the gate where the advantage is positive"},
    )
    tau_negative: float = attrs.field(
        default=1.05, validator=attrs.validators.gt(0.0), metadata={"help": "the same where it is not; larger cuts off sooner"}
    )

    def formula(self) -> str:
        return f"l = -(4/tau) sigmoid(tau (r - 1)) A, tau = {self.tau_positive:g} for A > 0, else {self.tau_negative:g}"


@attrs.frozen(kw_only=True)
class Sapo(AlgorithmConfig):
    """SAPO (2511.20347): a soft gate that fades with the ratio's distance from 1; group mean and standard deviation."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "sapo", help="the policy loss of a token")
    aggregation: Selection = component("aggregation", "seq-mean-token-mean", help="mean over tokens, then over sequences")
