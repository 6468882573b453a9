"""Options of DRO. Torch-free."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component


@attrs.frozen(kw_only=True)
class DroConfig:
    """Policy gradient with a squared log-ratio in place of a clip. See `core_rl_dro.dro`."""

    beta: float = attrs.field(
        validator=attrs.validators.ge(0.0), metadata={"help": "weight of half the squared log-ratio; tau in Kimi's papers"}
    )
    level: Literal["sequence", "token"] = attrs.field(
        default="sequence",
        metadata={
            "help": "whose log-ratio is squared: that of the whole sequence, as in the papers, or each token's (verl, ROLL)"
        },
    )

    def formula(self) -> str:
        if self.level == "token":
            return f"l = -A log pi + {self.beta:g}/2 (log pi - log pi_old)^2"
        return f"l_it = -A log pi + {self.beta:g}/(2 L_i) (sum_t log pi - log pi_old)^2"


_LOSS = "the policy loss of a token"
_SUM = "sum over tokens, mean over sequences"


@attrs.frozen(kw_only=True)
class Dro(AlgorithmConfig):
    """DRO's policy loss (2405.19107) on group-normalised rewards: a squared log-ratio of the sequence holds the policy near the old one."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "dro", help=_LOSS, beta=0.1)
    aggregation: Selection = component("aggregation", "seq-mean-token-sum", help=_SUM)


@attrs.frozen(kw_only=True)
class Kimi(AlgorithmConfig):
    """Kimi k1.5's objective (2501.12599): rewards less the group's mean, a squared log-ratio of the sequence, mean over sequences."""

    advantage: Selection = component(
        "advantage", "group_norm", help="how rewards become per-token advantages", std_level="none"
    )
    loss: Selection = component("loss", "dro", help=_LOSS, beta=0.1)
    aggregation: Selection = component("aggregation", "seq-mean-token-sum", help=_SUM)
