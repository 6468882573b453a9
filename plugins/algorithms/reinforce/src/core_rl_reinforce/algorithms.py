"""The named algorithms of the REINFORCE family: sets of defaults. Torch-free."""

from __future__ import annotations

from typing import Any

import attrs

from core_rl.config.algorithm import AlgorithmConfig, KlConfig
from core_rl.config.selection import Selection, component
from core_rl_ppo.config import Ppo

_ADVANTAGE = "how rewards become per-token advantages"
_ADVANTAGE_NORM = "centres and scales the advantages of the batch's tokens; null: as they are"
_AGGREGATION = "how per-token losses become one number, with global denominators"
_KL = "distance to the reference policy"
_LOSS = "the policy loss of a token"


def _group_size(default: int) -> Any:
    return attrs.field(default=default, validator=attrs.validators.ge(1), metadata={"help": "samples of each prompt"})


@attrs.frozen(kw_only=True)
class Reinforce(AlgorithmConfig):
    """REINFORCE (Williams 1992): rewards-to-go times the score function, one sample a prompt, no baseline.

    Sum over the tokens of a sequence, mean over sequences: the gradient of the mean reward itself.
    """

    group_size: int = _group_size(1)
    advantage: Selection = component("advantage", "reinforce_returns", help=_ADVANTAGE)
    loss: Selection = component("loss", "reinforce", help=_LOSS)
    aggregation: Selection = component("aggregation", "seq-mean-token-sum", help=_AGGREGATION)


@attrs.frozen(kw_only=True)
class Rloo(AlgorithmConfig):
    """RLOO (2402.14740): the other samples of a prompt are the baseline, a completion is one action, KL (k1) in its reward.

    The paper fits the coefficient of the KL to the task; 0.05 is TRL's. TRL clips the ratio of the whole sequence as PPO does, and
    samples twice a prompt (`group_size: 2`).
    """

    advantage: Selection = component("advantage", "rloo", help=_ADVANTAGE)
    loss: Selection = component("loss", "reinforce", help=_LOSS)
    aggregation: Selection = component("aggregation", "seq-mean-token-sum", help=_AGGREGATION)
    kl: KlConfig = attrs.field(factory=lambda: KlConfig(coef=0.05, estimator="k1", place="reward"), metadata={"help": _KL})


@attrs.frozen(kw_only=True)
class ReinforcePp(AlgorithmConfig):
    """REINFORCE++ (2501.03262): rewards-to-go, whitened over the batch, PPO's clip, KL (k1) in the reward of each token, no critic.

    One sample a prompt. 0.01 is the paper's coefficient and OpenRLHF's. NeMo-RL whitens by the population variance.
    """

    group_size: int = _group_size(1)
    advantage: Selection = component("advantage", "reinforce_returns", help=_ADVANTAGE)
    advantage_norm: Selection | None = component("normaliser", "whiten", help=_ADVANTAGE_NORM)
    loss: Selection = component("loss", "ppo_clip", help=_LOSS)
    kl: KlConfig = attrs.field(factory=lambda: KlConfig(coef=0.01, estimator="k1", place="reward"), metadata={"help": _KL})


@attrs.frozen(kw_only=True)
class ReinforcePpBaseline(AlgorithmConfig):
    """REINFORCE++ with baseline (2501.03262): reward less the group mean, whitened over the batch, PPO's clip, KL (k2) in the loss."""

    advantage: Selection = component("advantage", "group_norm", help=_ADVANTAGE, std_level="none")
    advantage_norm: Selection | None = component("normaliser", "whiten", help=_ADVANTAGE_NORM)
    loss: Selection = component("loss", "ppo_clip", help=_LOSS)
    kl: KlConfig = attrs.field(factory=lambda: KlConfig(coef=0.01, estimator="k2", place="loss"), metadata={"help": _KL})


@attrs.frozen(kw_only=True)
class Remax(AlgorithmConfig):
    """ReMax (2310.10505): the reward of the greedy completion is the baseline; one sample a prompt beside it.

    The paper takes a KL penalty from the reward, with a coefficient for the task: `kl: {coef: 0.05, estimator: k1, place: reward}`.
    """

    group_size: int = _group_size(1)
    advantage: Selection = component("advantage", "remax", help=_ADVANTAGE)
    loss: Selection = component("loss", "reinforce", help=_LOSS)
    aggregation: Selection = component("aggregation", "seq-mean-token-sum", help=_AGGREGATION)


@attrs.frozen(kw_only=True)
class Opo(AlgorithmConfig):
    """OPO (2505.23585): the length-weighted baseline of least variance, exactly on-policy: no clip, no KL, one step a batch."""

    advantage: Selection = component("advantage", "opo", help=_ADVANTAGE)
    loss: Selection = component("loss", "reinforce", help=_LOSS)


@attrs.frozen(kw_only=True)
class Gpg(AlgorithmConfig):
    """GPG (2504.02546): the score function with the group mean as baseline, made up for groups that teach nothing; no clip, no KL."""

    advantage: Selection = component("advantage", "gpg", help=_ADVANTAGE)
    loss: Selection = component("loss", "reinforce", help=_LOSS)


@attrs.frozen(kw_only=True)
class PassAtK(AlgorithmConfig):
    """Pass@k training (2503.19595): only the best sample of a prompt is pushed up, by its lead; PPO's clip, no KL."""

    advantage: Selection = component("advantage", "pass_at_k", help=_ADVANTAGE)
    loss: Selection = component("loss", "ppo_clip", help=_LOSS)


@attrs.frozen(kw_only=True)
class MaxRl(AlgorithmConfig):
    """MaxRL (2602.02710): reward less the group mean, over the group mean: hard prompts count as in maximum likelihood; PPO's clip, no KL."""

    advantage: Selection = component("advantage", "maxrl", help=_ADVANTAGE)
    loss: Selection = component("loss", "ppo_clip", help=_LOSS)


@attrs.frozen(kw_only=True)
class Gdpo(AlgorithmConfig):
    """GDPO (2601.05242): GRPO that compares every reward within the group by itself, then all of them over the batch; no KL."""

    advantage: Selection = component("advantage", "gdpo", help=_ADVANTAGE)
    loss: Selection = component("loss", "ppo_clip", help=_LOSS)
    aggregation: Selection = component("aggregation", "seq-mean-token-mean", help=_AGGREGATION)


@attrs.frozen(kw_only=True)
class PfPpo(Ppo):
    """PF-PPO (2409.06957): PPO on samples drawn by how far their reward can be trusted; five samples a prompt, as in the paper.

    Advantages are computed and whitened before the drawing, over all samples.
    """

    group_size: int = _group_size(5)
    resampler: Selection | None = component(
        "resampler",
        "pf_ppo",
        optional=True,
        help="draws the sequences to train on from those sampled; null: all of them, once",
    )
