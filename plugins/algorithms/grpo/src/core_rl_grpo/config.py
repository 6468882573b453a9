"""Options of the GRPO family. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig, KlConfig
from core_rl.config.selection import Selection, component


@attrs.frozen(kw_only=True)
class GroupNormConfig:
    """How a sample's reward is compared with those of its group. See `core_rl_grpo.group_norm`."""

    mean_level: Literal["group", "batch", "none"] = attrs.field(
        default="group", metadata={"help": "whose mean is taken from a reward"}
    )
    std_level: Literal["group", "batch", "none"] = attrs.field(
        default="group", metadata={"help": "whose standard deviation it is divided by; none in Dr. GRPO, batch in LitePPO"}
    )
    std: Literal["sample", "population"] = attrs.field(
        default="sample", metadata={"help": "divide the squares by n - 1 (sample) or n (population)"}
    )
    leave_one_out: Literal["none", "mean", "std", "both"] = attrs.field(
        default="none", metadata={"help": "which statistics leave out the sample itself; mean as in RLOO, both as in NeMo-RL"}
    )
    eps: float = attrs.field(
        default=1e-6, validator=attrs.validators.ge(0.0), metadata={"help": "added to the standard deviation"}
    )
    clip_low: float | None = attrs.field(default=None, metadata={"help": "advantages below this become this"})
    clip_high: float | None = attrs.field(default=None, metadata={"help": "advantages above this become this"})

    @clip_high.validator
    def _check_order(self, _: attrs.Attribute[Any], value: float | None) -> None:
        if value is not None and self.clip_low is not None and value < self.clip_low:
            message = f"must be at least clip_low, {self.clip_low:g}, found {value:g}"
            raise ValueError(message)

    def formula(self) -> str:
        others = {"none": "", "mean": ", mean without i", "std": ", std without i", "both": ", both without i"}[
            self.leave_one_out
        ]
        mean = "" if self.mean_level == "none" else f" - mean_{self.mean_level}"
        std = "" if self.std_level == "none" else f" / ({self.std} std_{self.std_level} + {self.eps:g})"
        inside = f"(R_i{mean}){std}" if std else f"R_i{mean}"
        if self.clip_low is None and self.clip_high is None:
            return f"A_i = {inside}{others}"
        low, high = (
            ("-inf", "inf")[side] if bound is None else f"{bound:g}"
            for side, bound in enumerate((self.clip_low, self.clip_high))
        )
        return f"A_i = clip({inside}, {low}, {high}){others}"


@attrs.frozen(kw_only=True)
class PpoClipConfig:
    """How far the policy may move from the old one. See `core_rl_grpo.ppo_clip`."""

    clip_low: float = attrs.field(
        default=0.2,
        validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)],
        metadata={"help": "a ratio under 1 - clip_low has no gradient when the advantage is negative"},
    )
    clip_high: float = attrs.field(
        default=0.2,
        validator=attrs.validators.ge(0.0),
        metadata={"help": "a ratio over 1 + clip_high has no gradient when the advantage is positive; 0.28 in DAPO"},
    )
    dual_clip: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.gt(1.0)),
        metadata={"help": "the loss of a negative advantage A is at most dual_clip · |A|; 3 in 1912.09729; null: no bound"},
    )
    two_sided_delta: float | None = attrs.field(
        default=None,
        metadata={"help": "the unclipped ratio is at most this, above 1 + clip_high (INTELLECT-2); null: no bound"},
    )

    @two_sided_delta.validator
    def _check_delta(self, _: attrs.Attribute[Any], value: float | None) -> None:
        if value is not None and value <= 1 + self.clip_high:
            message = f"must be above 1 + clip_high, {1 + self.clip_high:g}, found {value:g}"
            raise ValueError(message)

    def formula(self) -> str:
        free = "r_t" if self.two_sided_delta is None else f"min(r_t, {self.two_sided_delta:g})"
        dual = "" if self.dual_clip is None else f"; A_t < 0: at most {self.dual_clip:g} |A_t|"
        return f"l_t = -min({free} A_t, clip(r_t, {1 - self.clip_low:g}, {1 + self.clip_high:g}) A_t), r_t = pi/pi_old{dual}"


_ADVANTAGE_HELP = "how rewards become per-token advantages"
_LOSS_HELP = "the policy loss of a token"
_AGGREGATION_HELP = "how per-token losses become one number, with global denominators"


@attrs.frozen(kw_only=True)
class Grpo(AlgorithmConfig):
    """GRPO (2402.03300): group mean and standard deviation, mean over tokens and then over sequences, KL (k3) in the loss.

    The coefficient of the KL is the paper's 0.04, which keeps a reference policy; much later work sets `kl: {coef: 0}`.
    """

    advantage: Selection = component("advantage", "group_norm", help=_ADVANTAGE_HELP)
    loss: Selection = component("loss", "ppo_clip", help=_LOSS_HELP)
    aggregation: Selection = component("aggregation", "seq-mean-token-mean", help=_AGGREGATION_HELP)
    kl: KlConfig = attrs.field(factory=lambda: KlConfig(coef=0.04), metadata={"help": "distance to the reference policy"})


@attrs.frozen(kw_only=True)
class DrGrpo(AlgorithmConfig):
    """Dr. GRPO (2503.20783): no division by the standard deviation, none by the sequence's own length, no KL."""

    advantage: Selection = component("advantage", "group_norm", help=_ADVANTAGE_HELP, std_level="none")
    loss: Selection = component("loss", "ppo_clip", help=_LOSS_HELP)
    aggregation: Selection = component("aggregation", "seq-mean-token-sum-norm", help=_AGGREGATION_HELP)


@attrs.frozen(kw_only=True)
class LitePpo(AlgorithmConfig):
    """LitePPO (2508.08221): group mean, standard deviation of the batch, mean over tokens; no KL, no critic."""

    advantage: Selection = component("advantage", "group_norm", help=_ADVANTAGE_HELP, std_level="batch")
    loss: Selection = component("loss", "ppo_clip", help=_LOSS_HELP)


@attrs.frozen(kw_only=True)
class GrpoLoo(AlgorithmConfig):
    """GRPO as NeMo-RL has it: mean and standard deviation of the other samples of a prompt, mean over tokens, KL (k3) 0.01 in the loss.

    Rewards 1, 0, 0, 0 have advantages 1, -0.58, -0.58, -0.58: the others of the winner have no spread, so that it is not scaled.
    """

    advantage: Selection = component("advantage", "group_norm", help=_ADVANTAGE_HELP, leave_one_out="both")
    loss: Selection = component("loss", "ppo_clip", help=_LOSS_HELP)
    kl: KlConfig = attrs.field(factory=lambda: KlConfig(coef=0.01), metadata={"help": "distance to the reference policy"})
