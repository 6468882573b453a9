"""Options of distillation. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.offline import OfflineConfig
from core_rl.config.selection import Selection, component, select
from core_rl.config.teacher import TeacherTokens

_at_least: Any = attrs.validators.ge


@attrs.frozen(kw_only=True)
class DistillConfig:
    """How near the teacher's policy is to what was sampled. See `core_rl_distill.advantage`."""

    coef: float = attrs.field(
        default=1.0, validator=attrs.validators.gt(0.0), metadata={"help": "of log teacher - log pi_old of a token"}
    )
    discount: float = attrs.field(
        default=0.0,
        validator=[_at_least(0.0), attrs.validators.le(1.0)],
        metadata={"help": "each token also gets what follows it, discounted: 1 is the whole rest; 0 its own term alone"},
    )
    base: Selection | None = component(
        "advantage", optional=True, help="an advantage of rewards that is added; null: the teacher is all there is"
    )
    base_coef: float = attrs.field(default=1.0, metadata={"help": "of base; alpha in MOPD (2601.02780)"})

    def formula(self) -> str:
        term = "log teacher_t - log pi_old_t"
        if self.discount:
            term = f"sum_(j >= t) {self.discount:g}^(j - t) (log teacher_j - log pi_old_j)"
        base = "" if self.base is None else f" + {self.base_coef:g} A_t({self.base.name})"
        return f"A_t = {self.coef:g} ({term}){base}" if base or self.coef != 1 else f"A_t = {term}"


def _estimator(value: Selection | str) -> Selection:
    return select("kl_estimator", value) if isinstance(value, str) else value


@attrs.frozen(kw_only=True)
class DistillKlConfig:
    """A KL estimate from the sampled token as the loss. See `core_rl_distill.kl_loss`."""

    estimator: Selection = attrs.field(
        factory=lambda: select("kl_estimator", "k3"),
        converter=_estimator,
        metadata={"component": "kl_estimator", "help": "of KL(policy || teacher); k1 only with `unbiased`"},
    )
    unbiased: bool = attrs.field(
        default=False,
        metadata={"help": "multiply by the differentiable pi/pi_old: the gradient of the true KL, and right off-policy"},
    )

    @estimator.validator
    def _check_gradient(self, _: attrs.Attribute[Any], value: Selection) -> None:
        if value.name == "k1" and not self.unbiased:
            message = (
                "k1 as a loss has a gradient that knows nothing of the teacher: take k2, k3, k1+ or abs, or set unbiased: true"
            )
            raise ValueError(message)

    def formula(self) -> str:
        ratio = "pi/pi_old · " if self.unbiased else ""
        return f"l_t = {ratio}{self.estimator.name}(d_t), d = log pi - log teacher of the sampled token"


_TAIL_FORMULA = {
    "renormalise": "S and T over the ids made to sum to 1",
    "rest": "and one outcome more for all the rest",
    "ignore": "the sums end there",
}


@attrs.frozen(kw_only=True)
class GjsdConfig:
    """Which divergence of whole distributions, and over which tokens. See `core_rl_distill.gjsd`."""

    beta: float = attrs.field(
        default=0.5,
        validator=[_at_least(0.0), attrs.validators.le(1.0)],
        metadata={"help": "0: KL(teacher || student), 1: KL(student || teacher), between: generalised Jensen-Shannon"},
    )
    top_k: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(_at_least(1)),
        metadata={
            "help": "compare so many tokens in each place (32 in verl); null: the whole vocabulary, which holds two numbers a token of "
            "it for every token of the batch"
        },
    )
    ids_from: Literal["teacher", "student"] = attrs.field(
        default="teacher", metadata={"help": "whose likeliest tokens; read with top_k"}
    )
    tail: Literal["rest", "renormalise", "ignore"] = attrs.field(
        default="rest",
        metadata={
            "help": "what becomes of the other tokens, with top_k: one outcome more, nothing but both made to sum to 1, or nothing (verl)"
        },
    )
    temperature: float = attrs.field(
        default=1.0,
        validator=attrs.validators.gt(0.0),
        metadata={"help": "divides both models' logits once more, after sampling.temperature"},
    )

    @tail.validator
    def _check_tail(self, _: attrs.Attribute[Any], value: str) -> None:
        if self.top_k == 1 and value == "renormalise":
            message = (
                "with top_k 1 both sides are 1 whatever the models say, and nothing is learnt: take rest, or a larger top_k"
            )
            raise ValueError(message)

    @temperature.validator
    def _check_temperature(self, _: attrs.Attribute[Any], value: float) -> None:
        if value != 1.0 and self.top_k is not None and self.tail != "renormalise":
            message = "the mass of the tail at another temperature is not known: take tail: renormalise, or top_k: null"
            raise ValueError(message)

    def teacher_tokens(self) -> TeacherTokens:
        return TeacherTokens(top_k=self.top_k, ids_from=self.ids_from if self.top_k is not None else "teacher")

    def formula(self) -> str:
        beta = self.beta
        if beta in (0.0, 1.0):
            divergence = "l_t = sum_v T log(T / S)" if beta == 0 else "l_t = sum_v S log(S / T)"
        else:
            divergence = f"l_t = {beta:g} KL(T || M) + {1 - beta:g} KL(S || M), M = {1 - beta:g} S + {beta:g} T"
        over = ", v all tokens" if self.top_k is None else f", v the {self.top_k} likeliest of the {self.ids_from}"
        tail = "" if self.top_k is None else f", {_TAIL_FORMULA[self.tail]}"
        heat = "" if self.temperature == 1.0 else f", logits / {self.temperature:g}"
        return f"{divergence}{over}{tail}{heat}"


_ADVANTAGE_HELP = "how rewards become per-token advantages"
_LOSS_HELP = "the policy loss of a token"


@attrs.frozen(kw_only=True)
class Opd(AlgorithmConfig):
    """On-policy distillation: the student samples, and each token's advantage is how much likelier the teacher finds it (2306.13649, 2306.08543).

    The policy gradient of KL(student || teacher) of the next token. Rewards are not needed; `advantage.base` adds an advantage of theirs.
    """

    group_size: int = attrs.field(default=4, validator=_at_least(1), metadata={"help": "samples of each prompt"})
    advantage: Selection = component("advantage", "distill", help=_ADVANTAGE_HELP)
    loss: Selection = component("loss", "ppo_clip", help=_LOSS_HELP)


@attrs.frozen(kw_only=True)
class Gkd(AlgorithmConfig):
    """Generalised knowledge distillation (2306.13649) on the student's own samples: Jensen-Shannon divergence of the next token's distributions.

    lambda of the paper is 1: every sequence is the student's. TRL samples half of the batches and takes data for the rest.
    """

    group_size: int = attrs.field(default=1, validator=_at_least(1), metadata={"help": "samples of each prompt"})
    advantage: Selection = component("advantage", "zero", help=_ADVANTAGE_HELP)
    loss: Selection = component("loss", "gjsd", help=_LOSS_HELP)


@attrs.frozen(kw_only=True)
class Kd(OfflineConfig):
    """Knowledge distillation on a data set (1503.02531; of sequences 1606.07947): KL(teacher || student) in every place of its rows.

    Supervised KD in the words of GKD (2306.13649), its lambda 0. The data's own tokens beside it: `extra_losses: [{name: nll, weight: …}]`.
    """

    loss: Selection = component("loss", "gjsd", help="the loss of a row", beta=0.0)
