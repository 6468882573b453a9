"""The parts of an algorithm. A named algorithm is a subclass with other defaults, and nothing else."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.config.selection import Selection, component, components
from core_rl.numerics.names import Aggregation, KlEstimator


@attrs.frozen(kw_only=True)
class KlConfig:
    """Distance to the reference policy."""

    coef: float = attrs.field(
        default=0.0, validator=attrs.validators.ge(0.0), metadata={"help": "0 switches it off, and no reference is kept"}
    )
    estimator: KlEstimator = attrs.field(
        default="k3", metadata={"help": "of KL(policy || reference) per token: k1, abs, k2, k3, and k1+ / k3+ (gradient of k2)"}
    )
    unbiased: bool = attrs.field(
        default=False, metadata={"help": "multiply by the differentiable ratio pi/pi_old (DeepSeek-V3.2, 2512.02556)"}
    )
    place: Literal["loss", "reward"] = attrs.field(
        default="loss", metadata={"help": "loss: added to the loss with its gradient; reward: taken from each token's reward"}
    )
    reset_every: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(1)),
        metadata={"help": "make the reference a copy of the policy every so many steps"},
    )


@attrs.frozen(kw_only=True)
class AlgorithmConfig:
    """Everything between a group of scored samples and an optimizer step."""

    group_size: int = attrs.field(default=8, validator=attrs.validators.ge(1), metadata={"help": "samples of each prompt"})
    advantage: Selection = component("advantage", help="how rewards become per-token advantages")
    loss: Selection = component("loss", help="the policy loss of a token")
    aggregation: Aggregation = attrs.field(
        default="token-mean", metadata={"help": "how per-token losses become one number, with global denominators"}
    )
    loss_scale_length: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(1)),
        metadata={"help": "the constant of seq-mean-token-sum-norm; null takes sampling.max_new_tokens"},
    )
    kl: KlConfig = attrs.field(factory=KlConfig, metadata={"help": "distance to the reference policy"})
    entropy_coef: float = attrs.field(default=0.0, metadata={"help": "entropy bonus, with a gradient; 0 switches it off"})
    rejections: tuple[Selection, ...] = components("rejection", help="filters and weights, applied in this order")
    proximal: Literal["auto", "recompute", "reuse", "rollout"] = attrs.field(
        default="auto",
        metadata={
            "help": "where old log-probabilities come from: a forward pass, the training forward itself (exact when a batch is one "
            "step), or the rollout engine; auto is reuse where exact, else recompute"
        },
    )
    epochs: int = attrs.field(
        default=1, validator=attrs.validators.ge(1), metadata={"help": "passes over a batch (mu iterations)"}
    )
    minibatches: int = attrs.field(
        default=1, validator=attrs.validators.ge(1), metadata={"help": "optimizer steps in one pass; groups stay whole"}
    )
