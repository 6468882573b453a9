"""The parts of an online algorithm. A named algorithm is a subclass with other defaults, and nothing else."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.config.selection import Selection, component, components, select
from core_rl.hf.spec import ModelSpec

_at_least: Any = attrs.validators.ge
_above: Any = attrs.validators.gt
_optional: Any = attrs.validators.optional


def _estimator(value: Selection | str) -> Selection:
    return select("kl_estimator", value) if isinstance(value, str) else value


@attrs.frozen(kw_only=True)
class KlConfig:
    """Distance to the reference policy."""

    coef: float = attrs.field(
        default=0.0, validator=_at_least(0.0), metadata={"help": "0 switches it off, and no reference is kept"}
    )
    estimator: Selection = attrs.field(
        factory=lambda: select("kl_estimator", "k3"),
        converter=_estimator,
        metadata={"component": "kl_estimator", "help": "of KL(policy || reference), from the sampled token"},
    )
    unbiased: bool = attrs.field(
        default=False, metadata={"help": "multiply by the differentiable ratio pi/pi_old (DeepSeek-V3.2, 2512.02556)"}
    )
    place: Literal["loss", "reward", "advantage"] = attrs.field(
        default="loss",
        metadata={
            "help": "loss: added to the loss with its gradient; reward: taken from each token's reward; advantage: taken from each "
            "token's advantage, less its mean over the batch"
        },
    )
    target: float | None = attrs.field(
        default=None,
        validator=_optional(_above(0.0)),
        metadata={"help": "steer coef so that the mean KL of a token stays near this (1909.08593); null: coef stays"},
    )
    horizon: float = attrs.field(
        default=10000.0,
        validator=_above(0.0),
        metadata={"help": "sequences over which a KL of twice the target adds 20 % to coef"},
    )
    reset_every: int | None = attrs.field(
        default=None,
        validator=_optional(_at_least(1)),
        metadata={"help": "make the reference a copy of the policy every so many steps"},
    )


@attrs.frozen(kw_only=True)
class CriticConfig:
    """Who estimates values, and how it learns."""

    shared: bool = attrs.field(
        default=False, metadata={"help": "a value head on the policy's own trunk; else a model of its own"}
    )
    model: ModelSpec | None = attrs.field(
        default=None, metadata={"help": "the critic's weights before the head is put on; null: those of the policy"}
    )
    train_engine: Selection | None = component(
        "train_engine", optional=True, help="the critic's engine and learning rate; null: as the policy's"
    )
    launcher: Selection | None = component(
        "launcher", optional=True, help="workers of the critic's own; null: it shares the policy's"
    )
    coef: float = attrs.field(
        default=0.5, validator=_above(0.0), metadata={"help": "of the value loss, where the trunk is shared"}
    )
    clip: float | None = attrs.field(
        default=0.2,
        validator=_optional(_above(0.0)),
        metadata={"help": "a value moves this far from the old one before it loses its gradient; null: no bound"},
    )
    huber_delta: float | None = attrs.field(
        default=None,
        validator=_optional(_above(0.0)),
        metadata={"help": "errors beyond this count linearly, not squared; null: all squared"},
    )
    warmup_steps: int = attrs.field(
        default=0, validator=_at_least(0), metadata={"help": "steps in which the critic learns and the policy does not"}
    )


@attrs.frozen(kw_only=True)
class TeacherConfig:
    """A stronger model whose log-probabilities are learnt from."""

    model: ModelSpec = attrs.field(metadata={"help": "the teacher's weights; its tokenizer must be the policy's"})
    train_engine: Selection | None = component(
        "train_engine", optional=True, help="where a frozen teacher is computed; null: as the policy's"
    )
    launcher: Selection | None = component(
        "launcher", optional=True, help="workers of the teacher's own; null: it shares the policy's"
    )
    rollout_engine: Selection | None = component(
        "rollout_engine", optional=True, help="a rollout engine that scores tokens, in place of a train engine"
    )


@attrs.frozen(kw_only=True)
class RefillConfig:
    """Dynamic sampling (DAPO, 2503.14476): groups that the rejections empty are replaced by others before training."""

    max_rounds: int = attrs.field(
        default=10, validator=_at_least(1), metadata={"help": "rounds of sampling for one step, the first one included"}
    )
    oversample: float = attrs.field(
        default=1.0,
        validator=_at_least(1.0),
        metadata={"help": "prompts sampled in a round for each group that is missing; what is left over is dropped"},
    )
    when_short: Literal["train", "repeat", "stop"] = attrs.field(
        default="train",
        metadata={"help": "after the last round: train on fewer groups, repeat some of those that were kept, or stop the run"},
    )


@attrs.frozen(kw_only=True)
class AlgorithmConfig:
    """Everything between a group of scored samples and an optimizer step."""

    group_size: int = attrs.field(default=8, validator=_at_least(1), metadata={"help": "samples of each prompt"})
    rewards: tuple[Selection, ...] = components(
        "reward", help="rewards that belong to the algorithm, added to the run's own in training and not in evaluation"
    )
    reward_norm: Selection | None = component(
        "normaliser", optional=True, help="centres and scales rewards before advantages; null: as they are"
    )
    advantage: Selection = component("advantage", help="how rewards become per-token advantages")
    advantage_norm: Selection | None = component(
        "normaliser", optional=True, help="centres and scales the advantages of the batch's tokens; null: as they are"
    )
    loss: Selection = component("loss", help="the policy loss of a token")
    extra_losses: tuple[Selection, ...] = components(
        "loss", weighted=True, help="added to the loss, each with `weight` (default 1), averaged over its own tokens"
    )
    aggregation: Selection = component(
        "aggregation", "token-mean", help="how per-token losses become one number, with global denominators"
    )
    kl: KlConfig = attrs.field(factory=KlConfig, metadata={"help": "distance to the reference policy"})
    entropy_coef: float = attrs.field(default=0.0, metadata={"help": "entropy bonus, with a gradient; 0 switches it off"})
    entropy_target: float | None = attrs.field(
        default=None,
        validator=_optional(_above(0.0)),
        metadata={
            "help": "steer entropy_coef: up by entropy_step after a step whose mean entropy was below this, else down, not under 0; "
            "the bonus acts only while that mean is not above it; null: entropy_coef stays"
        },
    )
    entropy_step: float = attrs.field(
        default=0.005, validator=_above(0.0), metadata={"help": "by how much entropy_target moves entropy_coef"}
    )
    rejections: tuple[Selection, ...] = components("rejection", help="filters and weights, applied in this order")
    refill: RefillConfig | None = attrs.field(
        default=None, metadata={"help": "sample again for groups that the rejections empty; null: train on what is left"}
    )
    resampler: Selection | None = component(
        "resampler", optional=True, help="draws the sequences to train on from those sampled; null: all of them, once"
    )
    proximal: Literal["auto", "recompute", "reuse", "rollout", "loglinear"] = attrs.field(
        default="auto",
        metadata={
            "help": "where old log-probabilities come from: a forward pass, the training forward itself (exact when a batch is one "
            "step), the rollout engine, or the log-linear way between the last two (A-3PO, 2512.06547); auto is reuse where exact, "
            "else recompute"
        },
    )
    critic: CriticConfig | None = attrs.field(default=None, metadata={"help": "for advantages that need values; null: none"})
    teacher: TeacherConfig | None = attrs.field(default=None, metadata={"help": "for distillation; null: none"})
    epochs: int = attrs.field(default=1, validator=_at_least(1), metadata={"help": "passes over a batch (mu iterations)"})
    minibatches: int = attrs.field(
        default=1, validator=_at_least(1), metadata={"help": "optimizer steps in one pass; groups stay whole"}
    )
