"""Options of Clip-Cov and KL-Cov. Torch-free."""

from __future__ import annotations

from typing import Any

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component

_share = [attrs.validators.gt(0.0), attrs.validators.le(1.0)]
_not_negative = attrs.validators.ge(0.0)


@attrs.frozen(kw_only=True)
class ClipCovConfig:
    """PPO-clip without the gradient of a few tokens of high covariance. See `core_rl_cov.clip_cov`."""

    ratio: float = attrs.field(default=2e-4, validator=_share, metadata={"help": "share of tokens that lose their gradient"})
    cov_low: float = attrs.field(default=1.0, metadata={"help": "they are drawn from tokens whose covariance is above this"})
    cov_high: float = attrs.field(default=5.0, metadata={"help": "and below this"})
    clip_low: float = attrs.field(
        default=0.2, validator=[_not_negative, attrs.validators.le(1.0)], metadata={"help": "of PPO-clip: 1 - clip_low"}
    )
    clip_high: float = attrs.field(default=0.2, validator=_not_negative, metadata={"help": "of PPO-clip: 1 + clip_high"})

    @cov_high.validator
    def _check_order(self, _: attrs.Attribute[Any], value: float) -> None:
        if value <= self.cov_low:
            message = f"must be above cov_low, {self.cov_low:g}, found {value:g}"
            raise ValueError(message)

    def formula(self) -> str:
        drawn = f"l = 0 for {self.ratio:g} of the tokens, drawn from {self.cov_low:g} < cov < {self.cov_high:g}"
        return f"PPO-clip({self.clip_low:g}, {self.clip_high:g}); {drawn}, cov = (A - mean A)(log pi - mean log pi)"


@attrs.frozen(kw_only=True)
class KlCovConfig:
    """The plain ratio, with a KL penalty on the few tokens of highest covariance. See `core_rl_cov.kl_cov`."""

    ratio: float = attrs.field(default=2e-4, validator=_share, metadata={"help": "share of tokens with the penalty"})
    coef: float = attrs.field(
        default=1.0, validator=_not_negative, metadata={"help": "of the penalty; 0.1 in verl's configuration"}
    )

    def formula(self) -> str:
        return f"l = -r A + {self.coef:g} |log r| on the {self.ratio:g} of tokens with the largest (A - mean A)(log pi - mean log pi)"


_LOSS = "the policy loss of a token"


@attrs.frozen(kw_only=True)
class ClipCov(AlgorithmConfig):
    """Clip-Cov (2505.22617): GRPO that takes the gradient from a few of the tokens that drive the entropy down; token mean, no KL."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "clip_cov", help=_LOSS)


@attrs.frozen(kw_only=True)
class KlCov(AlgorithmConfig):
    """KL-Cov (2505.22617): GRPO without a clip, with a KL penalty on the tokens that drive the entropy down; token mean."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "kl_cov", help=_LOSS)
