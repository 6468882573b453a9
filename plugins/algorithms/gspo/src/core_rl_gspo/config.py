"""Options of the GSPO family. Torch-free."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component


@attrs.frozen(kw_only=True)
class GspoConfig:
    """PPO's clipped surrogate on the geometric mean of a sequence's ratios. See `core_rl_gspo.gspo`."""

    clip_low: float = attrs.field(
        default=3e-4,
        validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)],
        metadata={"help": "a sequence ratio under 1 - clip_low has no gradient when the advantage is negative"},
    )
    clip_high: float = attrs.field(
        default=4e-4,
        validator=attrs.validators.ge(0.0),
        metadata={"help": "a sequence ratio over 1 + clip_high has no gradient when the advantage is positive"},
    )
    level: Literal["sequence", "token"] = attrs.field(
        default="sequence",
        metadata={"help": "token: GSPO-token, whose value is the sequence's and whose gradient is each token's own"},
    )

    def formula(self) -> str:
        ratio = "s_i = exp(1/L_i sum_t log r_it)" if self.level == "sequence" else "s_it = sg(s_i) pi/sg(pi)"
        return f"l_it = -min(s A, clip(s, 1-{self.clip_low:g}, 1+{self.clip_high:g}) A), {ratio}"


@attrs.frozen(kw_only=True)
class Gspo(AlgorithmConfig):
    """GSPO (2507.18071): ratios, clip and reward all belong to whole sequences; group mean and standard deviation, no KL."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "gspo", help="the policy loss of a token")
    aggregation: Selection = component("aggregation", "seq-mean-token-mean", help="mean over sequences")


@attrs.frozen(kw_only=True)
class GspoToken(Gspo):
    """GSPO-token (2507.18071, §4.3): GSPO for advantages that differ from token to token."""

    loss: Selection = component("loss", "gspo", help="the policy loss of a token", level="token")


@attrs.frozen(kw_only=True)
class Luspo(Gspo):
    """LUSPO (2602.05261): GSPO whose sequences count by their length, the sum over tokens in place of the mean, with wider bounds."""

    loss: Selection = component("loss", "gspo", help="the policy loss of a token", clip_low=2e-3, clip_high=2.5e-3)
    aggregation: Selection = component("aggregation", "seq-mean-token-sum", help="sum over tokens, mean over sequences")
