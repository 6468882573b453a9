"""Options of the rejections. Torch-free. Ratios are always pi_train / pi_rollout: rho = pi_old / mu."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.config.selection import Selection, component
from core_rl.numerics.names import RatioLevel

_not_negative: Any = attrs.validators.ge(0.0)
_positive: Any = attrs.validators.gt(0.0)
_optional_not_negative: Any = attrs.validators.optional(_not_negative)
_fraction: Any = [_positive, attrs.validators.le(1.0)]
_ACTION = "what is held back counts 0 and stays in the denominators (the paper), or leaves them too (mask)"
_DELTA = "a sequence with A < 0 stays while its mean divergence is at most this"


def _check_order(config: Any, attribute: Any, value: Any) -> None:
    """An upper bound is above the lower one."""
    if value is not None and config.lower is not None and value < config.lower:
        message = f"{attribute.name} must be at least lower, {config.lower:g}, found {value:g}"
        raise ValueError(message)


_upper: Any = [_positive, _check_order]


def _band(lower: float | None, upper: float | None, what: str) -> str:
    low = f"{lower:g} <= " if lower is not None else ""
    high = f" <= {upper:g}" if upper is not None else ""
    return f"{low}{what}{high}"


@attrs.frozen(kw_only=True)
class ZeroVarianceConfig:
    """Leave out groups whose rewards are all equal. See `core_rl_rejections.zero_variance`."""

    metric: str = attrs.field(
        default="reward", metadata={"help": "what is compared: reward, the whole sum; or the name of one of the rewards"}
    )
    without: tuple[str, ...] = attrs.field(
        default=(), metadata={"help": "rewards that are left out of the sum, where they are in it; those that only shape it"}
    )
    tolerance: float = attrs.field(
        default=1e-6,
        validator=_not_negative,
        metadata={"help": "values of a group that lie this near to each other count as equal"},
    )

    @without.validator
    def _check_sum(self, _: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
        if value and self.metric != "reward":
            message = f"only the whole sum has parts to leave out, and metric is {self.metric}: leave one of the two out"
            raise ValueError(message)

    def formula(self) -> str:
        less = f" without {', '.join(self.without)}" if self.without else ""
        return f"keep a group iff max R - min R > {self.tolerance:g}, R = {self.metric}{less}"


@attrs.frozen(kw_only=True)
class RatioBandConfig:
    """Keep tokens or sequences whose distance between trainer and sampler lies in a band. See `core_rl_rejections.ratio_band`."""

    metric: Literal["ratio", "k1", "k2", "k3", "k3_rho", "binary_kl"] = attrs.field(
        default="ratio",
        metadata={"help": "of d = log pi_old - log mu: e^d, d, d^2/2, e^-d - 1 + d, e^d - 1 - d, or the larger binary KL"},
    )
    level: Literal["token", "sequence"] = attrs.field(default="token", metadata={"help": "what is judged as one"})
    aggregate: Literal["sum", "mean", "max"] = attrs.field(
        default="mean",
        metadata={"help": "how a sequence's tokens become one number; of ratios in log space (sum: their product)"},
    )
    lower: float | None = attrs.field(default=None, metadata={"help": "the band begins here, included; null: no bound"})
    upper: float | None = attrs.field(
        default=5.0, validator=_check_order, metadata={"help": "the band ends here, included; null: no bound"}
    )
    action: Literal["mask", "zero", "clamp"] = attrs.field(
        default="mask",
        metadata={
            "help": "outside the band: mask leaves numerator and denominators, zero counts 0 with the denominators kept, clamp weighs "
            "every token by the ratio, bounded by the band"
        },
    )

    @action.validator
    def _check_action(self, _: attrs.Attribute[Any], value: str) -> None:
        if value == "clamp" and self.metric != "ratio":
            message = f"clamp bounds a weight, and {self.metric} is none: take metric ratio, or mask"
            raise ValueError(message)

    def formula(self) -> str:
        names = {"k1": "d", "k2": "d^2/2", "k3": "e^-d - 1 + d", "k3_rho": "e^d - 1 - d", "ratio": "e^d", "binary_kl": "KL_bin"}
        name = names[self.metric]
        what = f"{name} of a token" if self.level == "token" else f"{self.aggregate} of {name} over a sequence"
        return f"{self.action} unless {_band(self.lower, self.upper, what)}, d = log pi_old - log mu"


@attrs.frozen(kw_only=True)
class TisConfig:
    """Truncated importance weights. See `core_rl_rejections.weights`."""

    level: RatioLevel = attrs.field(
        default="token", metadata={"help": "of the ratio: token, sequence (a product) or geometric (a mean)"}
    )
    lower: float | None = attrs.field(
        default=None,
        validator=_optional_not_negative,
        metadata={"help": "a weight is at least this; null: no bound"},
    )
    upper: float = attrs.field(default=2.0, validator=_upper, metadata={"help": "a weight is at most this"})
    batch_normalise: bool = attrs.field(
        default=False,
        metadata={"help": "divide the weights by their mean over the batch's tokens, as verl's rollout_is_batch_normalize"},
    )

    def formula(self) -> str:
        low = f"max({self.lower:g}, " if self.lower is not None else ""
        mean = ", over its batch mean" if self.batch_normalise else ""
        return f"weight {low}min(rho, {self.upper:g}){')' if low else ''}, rho of the {self.level}{mean}"


@attrs.frozen(kw_only=True)
class MisConfig:
    """Masked importance weights: 0 outside of the band, the denominators kept. See `core_rl_rejections.weights`."""

    level: RatioLevel = attrs.field(default="sequence", metadata={"help": "of the ratio"})
    lower: float | None = attrs.field(
        default=None,
        validator=_optional_not_negative,
        metadata={"help": "the band begins here; null: no bound"},
    )
    upper: float = attrs.field(default=3.0, validator=_upper, metadata={"help": "the band ends here"})

    def formula(self) -> str:
        return f"weight rho [{_band(self.lower, self.upper, 'rho')}], rho of the {self.level}"


@attrs.frozen(kw_only=True)
class IcepopConfig(MisConfig):
    """IcePop: token weights, 0 outside of the band. See `core_rl_rejections.weights`."""

    level: RatioLevel = attrs.field(default="token", metadata={"help": "of the ratio"})
    lower: float | None = attrs.field(
        default=0.5,
        validator=_optional_not_negative,
        metadata={"help": "the band begins here; null: no bound"},
    )
    upper: float = attrs.field(default=5.0, validator=_upper, metadata={"help": "the band ends here"})


@attrs.frozen(kw_only=True)
class SeqMaskTisConfig:
    """Sequences whose geometric ratio is near 1, with token weights that nothing truncates. See `core_rl_rejections.weights`."""

    lower: float = attrs.field(default=0.999, validator=_positive, metadata={"help": "the geometric ratio is at least this"})
    upper: float = attrs.field(default=1.002, validator=_upper, metadata={"help": "and at most this"})

    def formula(self) -> str:
        return f"weight rho_t; mask a sequence unless {_band(self.lower, self.upper, 'geometric mean of rho')}"


@attrs.frozen(kw_only=True)
class OutlierVetoConfig:
    """One token far off takes its whole sequence out. See `core_rl_rejections.outlier_veto`."""

    lower: float = attrs.field(default=1e-4, validator=_not_negative, metadata={"help": "no token's ratio is below this"})
    upper: float | None = attrs.field(default=None, validator=_check_order, metadata={"help": "and none above; null: no bound"})

    def formula(self) -> str:
        return f"mask a sequence unless {_band(self.lower, self.upper, 'rho_t')} for all its tokens"


@attrs.frozen(kw_only=True)
class OpsmConfig:
    """Off-policy sequence mask of DeepSeek-V3.2. See `core_rl_rejections.opsm`."""

    delta: float = attrs.field(default=1e-4, validator=_not_negative, metadata={"help": _DELTA})
    action: Literal["zero", "mask"] = attrs.field(default="zero", metadata={"help": _ACTION})

    def formula(self) -> str:
        return f"{self.action} a sequence with A < 0 and mean(log mu - log pi_old) > {self.delta:g}"


@attrs.frozen(kw_only=True)
class OpsmLossConfig:
    """Another loss under the off-policy sequence mask of DeepSeek-V3.2. See `core_rl_rejections.opsm`."""

    of: Selection = component("loss", help="the loss of the sequences that are not held back")
    delta: float = attrs.field(default=1e-4, validator=_not_negative, metadata={"help": _DELTA})
    against: Literal["rollout", "old"] = attrs.field(
        default="rollout",
        metadata={
            "help": "whom the policy in training is compared with: the rollout engine's (the paper, TRL), or the old one (slime)"
        },
    )

    def formula(self) -> str:
        other = "mu" if self.against == "rollout" else "pi_old"
        return f"l = 0 for a sequence with A < 0 and mean(log {other} - log pi) > {self.delta:g}, else l of {self.of.name}"


@attrs.frozen(kw_only=True)
class TruncatedConfig:
    """Leave out completions that were cut at the limit (overlong filtering). See `core_rl_rejections.truncated`."""

    def formula(self) -> str:
        return "mask a sequence that ended at the limit"


@attrs.frozen(kw_only=True)
class SharedPrefixConfig:
    """Leave out what samples of different rewards begin with alike. See `core_rl_rejections.shared_prefix`."""

    min_tokens: int = attrs.field(
        default=8,
        validator=attrs.validators.ge(1),
        metadata={"help": "shorter shared beginnings stay; AReaL's min_filter_prefix_tokens"},
    )

    def formula(self) -> str:
        return f"mask the first tokens, {self.min_tokens} or more, that a sample shares with one of another reward"


@attrs.frozen(kw_only=True)
class HighEntropyConfig:
    """Keep the tokens where the policy was least sure. See `core_rl_rejections.high_entropy`."""

    share: float = attrs.field(
        default=0.2,
        validator=_fraction,
        metadata={"help": "of the batch's tokens, those of largest entropy: TRL's top_entropy_quantile"},
    )
    action: Literal["zero", "mask"] = attrs.field(default="zero", metadata={"help": _ACTION})

    def formula(self) -> str:
        return f"{self.action} all but the {self.share:g} of the tokens with the largest entropy of pi_old"


@attrs.frozen(kw_only=True)
class AcceptIfConfig:
    """A function of your own says which sequences are trained on. See `core_rl_rejections.accept_if`."""

    function: str = attrs.field(
        metadata={"help": "module:function, of one core_rl_rejections.accept_if:SequenceFacts, true to keep"}
    )

    def formula(self) -> str:
        return f"mask a sequence unless {self.function}(sequence)"
