"""Options of DRO. Torch-free."""

from __future__ import annotations

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component


@attrs.frozen(kw_only=True)
class DroConfig:
    """Policy gradient with a squared log-ratio in place of a clip. See `core_rl_dro.dro`."""

    beta: float = attrs.field(
        validator=attrs.validators.ge(0.0), metadata={"help": "weight of half the squared log-ratio; tau in Kimi's papers"}
    )

    def formula(self) -> str:
        return f"l = -A log pi + {self.beta:g}/2 (log pi - log pi_old)^2"


_LOSS = "the policy loss of a token"


@attrs.frozen(kw_only=True)
class Dro(AlgorithmConfig):
    """DRO's policy loss (2405.19107) on group-normalised rewards: a squared log-ratio holds the policy near the old one."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "dro", help=_LOSS, beta=0.1)


@attrs.frozen(kw_only=True)
class Kimi(AlgorithmConfig):
    """Kimi k1.5's objective (2501.12599): rewards less the group's mean, a squared log-ratio, mean over sequences."""

    advantage: Selection = component(
        "advantage", "group_norm", help="how rewards become per-token advantages", std_level="none"
    )
    loss: Selection = component("loss", "dro", help=_LOSS, beta=0.1)
    aggregation: Selection = component("aggregation", "seq-mean-token-mean", help="mean over tokens, then over sequences")
