"""Options of trust regions by divergence: DPPO and prime-rl's default loss. Torch-free."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component

_not_negative = attrs.validators.ge(0.0)


@attrs.frozen(kw_only=True)
class _Region:
    behaviour: Literal["rollout", "old"] = attrs.field(
        default="rollout",
        metadata={"help": "the policy that the region lies around: the rollout engine's, or the old one (verl)"},
    )
    weight_cap: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.gt(0.0)),
        metadata={
            "help": "verl's form: the ratio, at most this, is a weight without gradient; null: the ratio has its gradient"
        },
    )

    @property
    def _value(self) -> str:
        below = "mu" if self.behaviour == "rollout" else "pi_old"
        if self.weight_cap is None:
            return f"l = -M r A, r = pi/{below}"
        return f"l = -M sg(min(r, {self.weight_cap:g})) A log pi, r = pi/{below}"


@attrs.frozen(kw_only=True)
class DppoTvConfig(_Region):
    """A trust region in the total variation of the sampled token. See `core_rl_dppo.dppo`."""

    delta_low: float = attrs.field(
        default=0.15,
        validator=_not_negative,
        metadata={"help": "a token with A < 0 counts while its probability fell at most this"},
    )
    delta_high: float = attrs.field(
        default=0.15,
        validator=_not_negative,
        metadata={"help": "a token with A > 0 counts while its probability rose at most this"},
    )

    def formula(self) -> str:
        return f"{self._value}, M = [A > 0: pi - pi_b <= {self.delta_high:g}, else pi - pi_b >= -{self.delta_low:g}]"


@attrs.frozen(kw_only=True)
class DppoKlConfig(_Region):
    """A trust region in the binary KL of the sampled token. See `core_rl_dppo.dppo`."""

    delta_low: float = attrs.field(
        default=0.05, validator=_not_negative, metadata={"help": "of tokens whose probability fell: the largest KL that counts"}
    )
    delta_high: float = attrs.field(
        default=0.05, validator=_not_negative, metadata={"help": "of tokens whose probability rose: the largest KL that counts"}
    )

    def formula(self) -> str:
        out = f"(A > 0, pi > pi_b, KL > {self.delta_high:g}) or (A < 0, pi < pi_b, KL > {self.delta_low:g})"
        return f"{self._value}, M = 0 where {out}, KL = KL(Bern(pi_b) || Bern(pi))"


@attrs.frozen(kw_only=True)
class PrimeConfig:
    """prime-rl's default loss: a masked ratio, and a squared log-ratio that holds the policy near. See `core_rl_dppo.prime`."""

    mask: Literal["directional", "symmetric"] = attrs.field(
        default="directional", metadata={"help": "symmetric (its type ipo): both signs of A leave the loss on both sides"}
    )
    delta_low: float = attrs.field(
        default=0.2, validator=_not_negative, metadata={"help": "how far a probability may have fallen"}
    )
    delta_high: float = attrs.field(default=0.2, validator=_not_negative, metadata={"help": "how far it may have risen"})
    advantage_tau: float = attrs.field(default=1.0, validator=_not_negative, metadata={"help": "weight of the policy gradient"})
    kl_tau: float = attrs.field(default=1e-3, validator=_not_negative, metadata={"help": "weight of the squared log-ratio"})

    def formula(self) -> str:
        return f"l = -{self.advantage_tau:g} M A w + {self.kl_tau:g} (log w)^2, M {self.mask} in pi - mu: {self.delta_low:g}, {self.delta_high:g}"


_LOSS = "the policy loss of a token"


@attrs.frozen(kw_only=True)
class DppoTv(AlgorithmConfig):
    """DPPO with total variation (2602.04879): a token counts by how far its probability has moved, not by its ratio."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "dppo_tv", help=_LOSS)


@attrs.frozen(kw_only=True)
class DppoKl(AlgorithmConfig):
    """DPPO with the binary KL (2602.04879): the same, measured by the KL of the sampled token against all others."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "dppo_kl", help=_LOSS)


@attrs.frozen(kw_only=True)
class Prime(AlgorithmConfig):
    """prime-rl's default: rewards less the group's mean, a total-variation mask around the rollout policy, a squared log-ratio."""

    advantage: Selection = component(
        "advantage", "group_norm", help="how rewards become per-token advantages", std_level="none"
    )
    loss: Selection = component("loss", "prime", help=_LOSS)
