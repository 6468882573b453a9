"""The section `guard` of a run file. Torch-free."""

from __future__ import annotations

from typing import Any

import attrs

_fraction: Any = attrs.validators.and_(attrs.validators.ge(0.0), attrs.validators.le(1.0))
_above: Any = attrs.validators.gt(0.0)
_optional: Any = attrs.validators.optional


@attrs.frozen(kw_only=True)
class GuardSection:
    """Whether sampler and trainer are the same policy. Beyond `warn_…` there is a warning, beyond `stop_…` the run ends; null: never."""

    warn_abs_mean: float | None = attrs.field(
        default=0.1,
        validator=_optional(_above),
        metadata={"help": "mean |log pi_train - log pi_rollout| over the tokens of a batch"},
    )
    stop_abs_mean: float | None = attrs.field(default=1.0, validator=_optional(_above), metadata={"help": "the same"})
    warn_ess: float | None = attrs.field(
        default=0.5,
        validator=_optional(_fraction),
        metadata={"help": "effective sample size of the ratios of tokens, as a share of them: 1 when both agree"},
    )
    stop_ess: float | None = attrs.field(default=0.05, validator=_optional(_fraction), metadata={"help": "the same"})
    warn_outside: float | None = attrs.field(
        default=0.01,
        validator=_optional(_fraction),
        metadata={
            "help": "share of tokens outside the trainer's support: it gives them under 1/1000 of the probability they were sampled with"
        },
    )
    stop_outside: float | None = attrs.field(default=0.2, validator=_optional(_fraction), metadata={"help": "the same"})
    canary: bool = attrs.field(
        default=True,
        metadata={"help": "after each update that copies weights, sample a few tokens and compare their log-probabilities"},
    )
    canary_tolerance: float | None = attrs.field(
        default=None,
        validator=_optional(_above),
        metadata={"help": "mean difference of log-probabilities that passes; null: 0.01 in float32, else 0.2"},
    )
