"""Options of the components of the REINFORCE family. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

_at_least: Any = attrs.validators.ge
_above: Any = attrs.validators.gt
_within: Any = attrs.validators.and_(attrs.validators.ge(0.0), attrs.validators.le(1.0))
_optional: Any = attrs.validators.optional


@attrs.frozen(kw_only=True)
class ReturnsConfig:
    """Rewards-to-go of every token. See `core_rl_reinforce.returns`."""

    gamma: float = attrs.field(
        default=1.0, validator=_within, metadata={"help": "discount of one token that the policy wrote to the next"}
    )

    def formula(self) -> str:
        return f"A_t = sum_(k >= t) {self.gamma:g}^(k-t) r_k"


@attrs.frozen(kw_only=True)
class RemaxConfig:
    """Rewards-to-go less the reward of the greedy completion. See `core_rl_reinforce.remax`."""

    gamma: float = attrs.field(
        default=1.0, validator=_within, metadata={"help": "discount of one token that the policy wrote to the next"}
    )

    def formula(self) -> str:
        return f"A_t = sum_(k >= t) {self.gamma:g}^(k-t) r_k - R(greedy)"


@attrs.frozen(kw_only=True)
class GpgConfig:
    """The group mean as baseline, made up for groups that teach nothing. See `core_rl_reinforce.gpg`."""

    alpha: Literal["spread", "nonzero_reward", "one"] = attrs.field(
        default="spread",
        metadata={
            "help": "all samples over: those in groups whose rewards differ (the paper), those whose reward is not 0 (verl), or 1 always"
        },
    )
    scale: Literal["none", "std"] = attrs.field(
        default="none", metadata={"help": "F_norm: divide by nothing, or by the standard deviation of the group"}
    )
    eps: float = attrs.field(default=1e-6, validator=_at_least(0.0), metadata={"help": "added to the standard deviation"})

    def formula(self) -> str:
        names = {"spread": "B/#{i: the rewards of i's group differ}", "nonzero_reward": "B/#{i: R_i != 0}", "one": "1"}
        scale = "" if self.scale == "none" else f" / (std_G + {self.eps:g})"
        return f"A_i = alpha (R_i - mean_G){scale}, alpha = {names[self.alpha]}"


@attrs.frozen(kw_only=True)
class PassAtKConfig:
    """Only the best sample of a group has an advantage. See `core_rl_reinforce.pass_at_k`."""

    scale: Literal["none", "std"] = attrs.field(
        default="none", metadata={"help": "divide by nothing, or by the standard deviation of the group"}
    )
    eps: float = attrs.field(default=1e-6, validator=_at_least(0.0), metadata={"help": "added to the standard deviation"})

    def formula(self) -> str:
        scale = "" if self.scale == "none" else f" / (std_G + {self.eps:g})"
        return f"A_i = (R_1st - R_2nd){scale} of the best sample, 0 of the others"


@attrs.frozen(kw_only=True)
class MaxRlConfig:
    """Distance from the group mean, relative to it. See `core_rl_reinforce.maxrl`."""

    at_zero: Literal["zero", "eps"] = attrs.field(
        default="zero",
        metadata={"help": "where the mean is not above 0: no advantage, or eps added to every mean, with negative ones as 0"},
    )
    eps: float = attrs.field(default=1e-6, validator=_above(0.0), metadata={"help": "added to the mean with at_zero: eps"})

    def formula(self) -> str:
        if self.at_zero == "zero":
            return "A_i = (R_i - mean_G) / mean_G where mean_G > 0, else 0"
        return f"A_i = (R_i - mean_G) / (max(mean_G, 0) + {self.eps:g})"


@attrs.frozen(kw_only=True)
class GdpoConfig:
    """Every reward compared within the group by itself. See `core_rl_reinforce.gdpo`."""

    order: Literal["normalise_then_sum", "sum_then_normalise"] = attrs.field(
        default="normalise_then_sum",
        metadata={"help": "normalise every reward and add them up, or the weighted sum of all as GRPO does"},
    )
    std: Literal["sample", "population"] = attrs.field(
        default="sample", metadata={"help": "divide the squares by n - 1 (sample) or n (population)"}
    )
    eps: float = attrs.field(default=1e-6, validator=_at_least(0.0), metadata={"help": "added to every standard deviation"})
    batch_norm: bool = attrs.field(
        default=True, metadata={"help": "afterwards less the mean of the batch's samples, over their standard deviation"}
    )

    def formula(self) -> str:
        norm = f"- mean_G) / (std_G + {self.eps:g})"
        one = f"sum_k w_k (R_ik {norm}" if self.order == "normalise_then_sum" else f"(sum_k w_k R_ik {norm}"
        batch = f"; A_i <- (A_i - mean_B) / (std_B + {self.eps:g})" if self.batch_norm else ""
        return f"A_i = {one}{batch}"


@attrs.frozen(kw_only=True)
class ReinforceLossConfig:
    """The score function. See `core_rl_reinforce.reinforce`."""

    importance: Literal["none", "rollout"] = attrs.field(
        default="none",
        metadata={"help": "weigh a token by nothing, or by its probability over the rollout engine's, without gradient"},
    )
    cap: float | None = attrs.field(
        default=None,
        validator=_optional(_above(0.0)),
        metadata={"help": "of the weight of a token, with importance: rollout; 2 in verl; null: no bound"},
    )

    @cap.validator
    def _check_read(self, _: attrs.Attribute[Any], value: float | None) -> None:
        if value is not None and self.importance == "none":
            message = "nothing is weighed with importance: none: leave it out, or set importance: rollout"
            raise ValueError(message)

    def formula(self) -> str:
        weight = "pi/mu" if self.cap is None else f"min(pi/mu, {self.cap:g})"
        return "l_t = -A_t log pi_t" if self.importance == "none" else f"l_t = -sg({weight}) A_t log pi_t"


@attrs.frozen(kw_only=True)
class PfPpoConfig:
    """How often a sample is drawn. See `core_rl_reinforce.pf_ppo`."""

    weights: Literal["pow", "max_min", "max_random"] = attrs.field(
        default="pow",
        metadata={"help": "|R|^power; 1 for the best and the worst; or 0.4 for the best and 0.1 for the others"},
    )
    power: float = attrs.field(default=2.0, validator=_at_least(0.0), metadata={"help": "of |R|, with weights: pow"})
    level: Literal["group", "batch"] = attrs.field(
        default="group",
        metadata={"help": "among whom best and worst are, and drawing is: a prompt's samples (the paper), or all (verl)"},
    )

    def formula(self) -> str:
        weight = {
            "pow": f"|R_i|^{self.power:g}",
            "max_min": "1 if R_i is the highest or the lowest, else 0",
            "max_random": "0.4 if R_i is the highest, else 0.1",
        }
        return f"i ~ w_i / sum w over the {self.level}, with replacement, w_i = {weight[self.weights]}"
