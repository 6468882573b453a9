"""Options of preference losses. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

_positive: Any = attrs.validators.gt(0.0)
_not_negative: Any = attrs.validators.ge(0.0)
_fraction: Any = [attrs.validators.ge(0.0), attrs.validators.le(1.0)]
_smoothing: Any = [attrs.validators.ge(0.0), attrs.validators.lt(0.5)]

Kind = Literal[
    "sigmoid",
    "robust",
    "hinge",
    "ipo",
    "exo_pair",
    "nca_pair",
    "bco_pair",
    "sppo_hard",
    "apo_zero",
    "apo_down",
    "discopop",
    "aot",
    "aot_unpaired",
]
SMOOTHED = ("sigmoid", "robust", "exo_pair", "aot", "aot_unpaired")
"""Kinds that read label_smoothing."""
OF_DIFFERENCES = ("sigmoid", "robust", "hinge", "ipo", "exo_pair", "discopop")
"""Kinds that compare a with b alone, as f-DPO does: what another divergence adds to both sides drops out."""
FORMULAS: dict[str, str] = {
    "sigmoid": "-(1-e) log sig(D) - e log sig(-D)",
    "robust": "(-(1-e) log sig(D) + e log sig(-D)) / (1-2e)",
    "hinge": "max(0, 1 - D)",
    "ipo": "(a - b - 1/(2 beta))^2",
    "exo_pair": "q_w (log q_w - log(1-e)) + q_l (log q_l - log e), q_w = sig(D), q_l = sig(-D)",
    "nca_pair": "-log sig(beta a) - 1/2 log sig(-beta a) - 1/2 log sig(-beta b)",
    "bco_pair": "-log sig(beta (a - d)) - log sig(-beta (b - d))",
    "sppo_hard": "(a - 1/(2 beta))^2 + (b + 1/(2 beta))^2",
    "apo_zero": "1 - sig(beta a) + sig(beta b)",
    "apo_down": "sig(beta a) + 1 - sig(D)",
    "discopop": "(1-g)(-log sig(D)) + g e^-D, g = sig(D/tau)",
    "aot": "-(1-e) log sig(D) - e log sig(-D), policy and reference margins sorted apart over the batch",
    "aot_unpaired": "-(1-e) log sig(D) - e log sig(-D), a and b sorted apart over the batch",
}


def _check_smoothing(config: Any, _: Any, value: float) -> None:
    if config.loss_type == "exo_pair" and value == 0:
        message = "exo_pair needs a label_smoothing above 0, such as 0.001"
        raise ValueError(message)
    if value and config.loss_type not in SMOOTHED:
        message = f"{config.loss_type} does not read label_smoothing: leave it out, or take one of {', '.join(SMOOTHED)}"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class DpoConfig:
    """How a chosen and a rejected completion are compared, against a reference. See `core_rl_preference.dpo`."""

    loss_type: Kind = attrs.field(default="sigmoid", metadata={"help": "the loss of a pair"})
    beta: float = attrs.field(default=0.1, validator=_positive, metadata={"help": "strength of the bond to the reference"})
    label_smoothing: float = attrs.field(
        default=0.0,
        validator=[*_smoothing, _check_smoothing],
        metadata={
            "help": "share of pairs that are taken to be labelled the wrong way round (cDPO, robust DPO); epsilon of exo_pair"
        },
    )
    length: Literal["sum", "mean"] = attrs.field(
        default="sum",
        metadata={
            "help": "log-probabilities of a completion are summed over its tokens, or averaged (TRL's ipo and sigmoid_norm)"
        },
    )
    f_divergence: Literal["reverse_kl", "forward_kl", "js", "alpha"] = attrs.field(
        default="reverse_kl", metadata={"help": "the divergence to the reference that the log-ratios stand for (2309.16240)"}
    )
    f_alpha: float = attrs.field(default=0.5, metadata={"help": "of the alpha divergence; not 1"})
    ld_alpha: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(_fraction),
        metadata={"help": "weight of the policy's tokens beyond the shorter completion's length (LD-DPO, 2409.06411); null: 1"},
    )
    ld_reference: bool = attrs.field(
        default=False, metadata={"help": "ld_alpha weighs the reference's tokens as well, as in TRL from 0.29 on"}
    )
    discopop_tau: float = attrs.field(default=0.05, validator=_positive, metadata={"help": "temperature of discopop's gate"})
    bco_shift: bool = attrs.field(
        default=True,
        metadata={"help": "bco_pair compares log-ratios with the mean of the batch's, not with 0 (TRL's bco_pair: false)"},
    )

    @f_divergence.validator
    def _check_divergence(self, _: Any, value: str) -> None:
        if value != "reverse_kl" and self.loss_type not in OF_DIFFERENCES:
            message = f"{self.loss_type} does not compare differences alone: take one of {', '.join(OF_DIFFERENCES)}"
            raise ValueError(message)

    @f_alpha.validator
    def _check_alpha(self, _: Any, value: float) -> None:
        if self.f_divergence == "alpha" and value == 1:
            message = "at 1 the alpha divergence is the reverse KL: take f_divergence reverse_kl, or another f_alpha"
            raise ValueError(message)

    @ld_reference.validator
    def _check_tail(self, _: Any, value: bool) -> None:
        if value and self.ld_alpha is None:
            message = "nothing is weighted without ld_alpha: give it, or leave this out"
            raise ValueError(message)

    def formula(self) -> str:
        how = "mean" if self.length == "mean" else "sum"
        whose = "" if self.ld_reference else "the policy's "
        tail = (
            f", {whose}tokens beyond the shorter side's length weighted {self.ld_alpha:g}" if self.ld_alpha is not None else ""
        )
        f = "" if self.f_divergence == "reverse_kl" else f", a and b through {self.f_divergence}"
        smooth = f", e = {self.label_smoothing:g}" if self.loss_type in SMOOTHED else ""
        shift = f", d = {'batch mean of a and b' if self.bco_shift else '0'}" if self.loss_type == "bco_pair" else ""
        tau = f", tau = {self.discopop_tau:g}" if self.loss_type == "discopop" else ""
        where = f"D = beta (a - b), a = {how} log pi/pi_ref of chosen, b of rejected"
        return f"l = {FORMULAS[self.loss_type]}; {where}, beta = {self.beta:g}{smooth}{shift}{tau}{f}{tail}"


@attrs.frozen(kw_only=True)
class CpoConfig:
    """A chosen and a rejected completion compared without a reference. See `core_rl_preference.cpo`."""

    loss_type: Literal["sigmoid", "hinge", "ipo"] = attrs.field(default="sigmoid", metadata={"help": "the loss of a pair"})
    beta: float = attrs.field(default=0.1, validator=_positive, metadata={"help": "scale of the log-probabilities"})
    label_smoothing: float = attrs.field(
        default=0.0,
        validator=[*_smoothing, _check_smoothing],
        metadata={"help": "share of pairs that are taken to be labelled the wrong way round"},
    )

    def formula(self) -> str:
        return (
            f"l = {FORMULAS[self.loss_type]}; D = beta (a - b), a = sum log pi of chosen, b of rejected, beta = {self.beta:g}"
        )


@attrs.frozen(kw_only=True)
class SimpoConfig:
    """Average log-probabilities with a target margin, without a reference. See `core_rl_preference.simpo`."""

    beta: float = attrs.field(default=2.0, validator=_positive, metadata={"help": "scale of the average log-probabilities"})
    gamma: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(_not_negative),
        metadata={"help": "the margin; null takes gamma_beta_ratio"},
    )
    gamma_beta_ratio: float = attrs.field(
        default=0.5,
        validator=_not_negative,
        metadata={"help": "the margin over beta, as the authors' code has it, where gamma is null"},
    )
    label_smoothing: float = attrs.field(
        default=0.0, validator=_smoothing, metadata={"help": "share of pairs that are taken to be labelled the wrong way round"}
    )

    @property
    def margin(self) -> float:
        return self.gamma if self.gamma is not None else self.gamma_beta_ratio * self.beta

    def formula(self) -> str:
        return f"l = -log sig({self.beta:g} (a - b) - {self.margin:g}), a = mean log pi of chosen, b of rejected"


@attrs.frozen(kw_only=True)
class OrpoConfig:
    """The odds of a chosen completion against those of a rejected one. See `core_rl_preference.orpo`."""

    beta: float = attrs.field(
        default=0.1, validator=_positive, metadata={"help": "weight of the odds ratio; lambda in the paper"}
    )

    def formula(self) -> str:
        return f"l = -{self.beta:g} log sig(log odds_c - log odds_r), odds = p/(1-p), p = exp(mean log pi)"


@attrs.frozen(kw_only=True)
class KtoConfig:
    """Good and bad completions apart, each against the policy's distance to the reference. See `core_rl_preference.kto`."""

    beta: float = attrs.field(default=0.1, validator=_positive, metadata={"help": "strength of the bond to the reference"})
    desirable_weight: float = attrs.field(default=1.0, validator=_not_negative, metadata={"help": "of good completions"})
    undesirable_weight: float = attrs.field(default=1.0, validator=_not_negative, metadata={"help": "of bad completions"})
    baseline: Literal["kl", "none"] = attrs.field(
        default="kl",
        metadata={
            "help": "what a log-ratio is compared with: the mean divergence of mismatched rows, or 0 (APO-zero unpaired)"
        },
    )

    def formula(self) -> str:
        z = "z = max(0, mean log pi/pi_ref of mismatched rows)" if self.baseline == "kl" else "z = 0"
        good, bad = (
            f"{self.desirable_weight:g} (1 - sig({self.beta:g} (a - z)))",
            f"{self.undesirable_weight:g} (1 - sig({self.beta:g} (z - a)))",
        )
        return f"l = {good} of good, {bad} of bad rows; a = sum log pi/pi_ref, {z}"
