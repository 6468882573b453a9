"""Options of PPO with a critic. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig, CriticConfig, KlConfig
from core_rl.config.selection import Selection, component, components

_share: Any = [attrs.validators.ge(0.0), attrs.validators.le(1.0)]


@attrs.frozen(kw_only=True)
class GaeConfig:
    """Generalised advantage estimation with a critic's values. See `core_rl_ppo.gae`.

    gamma and lambda are 1, as in verl, OpenRLHF and SkyRL; ROLL and TRL have lambda 0.95, the paper's own tasks 0.9 to 0.99.
    """

    gamma: float = attrs.field(default=1.0, validator=_share, metadata={"help": "discount of one step"})
    lam: float = attrs.field(
        default=1.0, validator=_share, metadata={"help": "1: rewards to the end less the value; 0: the one-step error"}
    )
    lam_value: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(_share),
        metadata={"help": "lambda of the returns that the critic learns (VAPO: 1); null: lam"},
    )
    length_adaptive_alpha: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.gt(0.0)),
        metadata={"help": "the policy's lambda is 1 - 1 / (alpha · length), at least 0 (VAPO: 0.05); null: lam"},
    )
    level: Literal["token", "turn"] = attrs.field(
        default="token",
        metadata={"help": "what one step is; turn: all that the policy writes between two answers of its environment"},
    )
    between: Literal["carry", "zero"] = attrs.field(
        default="carry",
        metadata={
            "help": "tokens that the policy did not write: carry, no steps at all (verl, NeMo-RL); zero, steps of value 0 and reward 0 (OpenRLHF)"
        },
    )

    @length_adaptive_alpha.validator
    def _check_read(self, _: attrs.Attribute[Any], value: float | None) -> None:
        if value is not None and self.lam_value is not None and self.lam != 1.0:
            message = f"leaves lam, {self.lam:g}, without a reader beside lam_value: leave one of the three out"
            raise ValueError(message)

    @between.validator
    def _check_turns(self, _: attrs.Attribute[Any], value: str) -> None:
        if self.level == "turn" and value == "zero":
            message = "zero speaks of tokens, and a step is a turn: leave it out, or take level: token"
            raise ValueError(message)
        if self.level == "turn" and self.length_adaptive_alpha is not None:
            message = "length_adaptive_alpha counts tokens, and a step is a turn: leave it out, or take level: token"
            raise ValueError(message)

    def formula(self) -> str:
        """With the options' own values."""
        lam_value = self.lam if self.lam_value is None else self.lam_value
        fixed = self.length_adaptive_alpha is None
        by_length = f"{_times(self.gamma)}max(0, 1 - 1 / ({self.length_adaptive_alpha or 0:g} L_i)) A_(t+1)"
        policy = _carried(self.gamma * self.lam, "A_(t+1)") if fixed else f" + {by_length}"
        critic = "A_t" if fixed and lam_value == self.lam else "B_t"
        recursion = "" if critic == "A_t" else f", B_t = delta_t{_carried(self.gamma * lam_value, 'B_(t+1)')}"
        delta = f"r_t{_carried(self.gamma, 'V_(t+1)')} - V_t"
        return f"A_t = delta_t{policy}, delta_t = {delta}, t a {self.level}; R_t = V_t + {critic}{recursion}"


def _times(factor: float) -> str:
    return "" if factor == 1 else f"{factor:g} "


def _carried(factor: float, term: str) -> str:
    return f" + {_times(factor)}{term}" if factor else ""


@attrs.frozen(kw_only=True)
class PositiveNllConfig:
    """Which samples are imitated. See `core_rl_ppo.positive_nll`."""

    threshold: float = attrs.field(
        default=0.0, metadata={"help": "samples whose reward, before any normalisation and KL penalty, is above this"}
    )

    def formula(self) -> str:
        """With the options' own values."""
        return f"l_t = -log pi(t), over the tokens of samples with R > {self.threshold:g}"


_ADVANTAGE_HELP = "how rewards become per-token advantages"
_NORM_HELP = "centres and scales the advantages of the batch's tokens; null: as they are"
_LOSS_HELP = "the policy loss of a token"
_CRITIC_HELP = "for advantages that need values; null: none"


@attrs.frozen(kw_only=True)
class Ppo(AlgorithmConfig):
    """PPO (1707.06347): a critic's values, generalised advantages, a clipped ratio; KL (k1) to a reference in the reward.

    One sample a prompt. The coefficient of the KL is 0.02, that of InstructGPT (2203.02155); OpenRLHF has 0.01, TRL 0.05, verl 0.001 once
    it is switched on. One pass over a batch in one step, in which no ratio is ever clipped: take `minibatches` or `epochs` above 1.
    """

    group_size: int = attrs.field(default=1, validator=attrs.validators.ge(1), metadata={"help": "samples of each prompt"})
    advantage: Selection = component("advantage", "gae", help=_ADVANTAGE_HELP)
    advantage_norm: Selection | None = component("normaliser", "whiten", help=_NORM_HELP)
    loss: Selection = component("loss", "ppo_clip", help=_LOSS_HELP)
    critic: CriticConfig | None = attrs.field(factory=CriticConfig, metadata={"help": _CRITIC_HELP})
    kl: KlConfig = attrs.field(
        factory=lambda: KlConfig(coef=0.02, estimator="k1", place="reward"),
        metadata={"help": "distance to the reference policy"},
    )


@attrs.frozen(kw_only=True)
class Vapo(AlgorithmConfig):
    """VAPO (2504.05118): a pretrained critic, lambda by length for the policy and 1 for the critic, clip-higher, NLL of what was right.

    No KL. The critic learns alone for the first 50 steps. The paper samples each prompt 16 times; here the framework's `group_size`.
    """

    advantage: Selection = component("advantage", "gae", help=_ADVANTAGE_HELP, length_adaptive_alpha=0.05, lam_value=1.0)
    advantage_norm: Selection | None = component("normaliser", "whiten", help=_NORM_HELP)
    loss: Selection = component("loss", "ppo_clip", help=_LOSS_HELP, clip_high=0.28)
    extra_losses: tuple[Selection, ...] = components(
        "loss",
        ({"name": "positive_nll", "weight": 0.1},),
        weighted=True,
        help="added to the loss, each with `weight` (default 1), averaged over its own tokens",
    )
    critic: CriticConfig | None = attrs.field(factory=lambda: CriticConfig(warmup_steps=50), metadata={"help": _CRITIC_HELP})
