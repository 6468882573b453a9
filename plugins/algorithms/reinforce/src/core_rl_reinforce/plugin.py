"""Registers REINFORCE and its baselines: algorithms, advantages, the loss `reinforce`, the resampler `pf_ppo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl import Component, hookimpl

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.errors import Problem

_ALGORITHMS = (
    ("reinforce", "Reinforce", "rewards-to-go times the score function, without a baseline", ""),
    ("rloo", "Rloo", "the mean reward of a prompt's other samples is the baseline", "2402.14740"),
    ("reinforce_pp", "ReinforcePp", "rewards-to-go whitened over the batch, PPO's clip, no critic", "2501.03262"),
    ("reinforce_pp_baseline", "ReinforcePpBaseline", "REINFORCE++ with the group mean as baseline", "2501.03262"),
    ("remax", "Remax", "the reward of the greedy completion is the baseline", "2310.10505"),
    ("opo", "Opo", "exactly on-policy, with the baseline of least variance", "2505.23585"),
    ("gpg", "Gpg", "the group mean as baseline, made up for groups that teach nothing", "2504.02546"),
    ("pass_at_k", "PassAtK", "only the best sample of a prompt is pushed up, by its lead", "2503.19595"),
    ("maxrl", "MaxRl", "rewards relative to the group mean: maximum likelihood for hard prompts", "2602.02710"),
    ("gdpo", "Gdpo", "every reward normalised within the group by itself, then all over the batch", "2601.05242"),
    ("pf_ppo", "PfPpo", "PPO on samples drawn by how far their reward can be trusted", "2409.06957"),
)
_GROUPED = frozenset({"rewards", "group", "several_samples"})
_ADVANTAGES = (
    (
        "reinforce_returns",
        "returns:Returns",
        "ReturnsConfig",
        "rewards-to-go of every token",
        "",
        "2501.03262",
        frozenset({"rewards"}),
    ),
    (
        "rloo",
        "rloo:Rloo",
        None,
        "reward less the mean of the prompt's other samples",
        "A_i = R_i - 1/(n-1) sum_(j != i) R_j",
        "2402.14740",
        _GROUPED,
    ),
    (
        "remax",
        "remax:Remax",
        "RemaxConfig",
        "rewards-to-go less the reward of the greedy completion",
        "",
        "2310.10505",
        frozenset({"rewards", "greedy_rewards"}),
    ),
    (
        "opo",
        "opo:Opo",
        None,
        "reward less the length-weighted mean of the group",
        "A_i = R_i - sum_G L_j R_j / sum_G L_j",
        "2505.23585",
        _GROUPED,
    ),
    (
        "gpg",
        "gpg:Gpg",
        "GpgConfig",
        "reward less the group mean, made up for groups that teach nothing",
        "",
        "2504.02546",
        _GROUPED,
    ),
    (
        "pass_at_k",
        "pass_at_k:PassAtK",
        "PassAtKConfig",
        "the lead of a group's best sample, 0 for the others",
        "",
        "2503.19595",
        _GROUPED,
    ),
    ("maxrl", "maxrl:MaxRl", "MaxRlConfig", "reward less the group mean, over the group mean", "", "2602.02710", _GROUPED),
    (
        "gdpo",
        "gdpo:Gdpo",
        "GdpoConfig",
        "every reward compared within the group by itself, then summed",
        "",
        "2601.05242",
        _GROUPED,
    ),
)


@hookimpl
def core_rl_algorithms() -> list[Component]:
    return [
        Component(
            name=name,
            target=f"core_rl_reinforce.algorithms:{cls}",
            config=f"core_rl_reinforce.algorithms:{cls}",
            summary=summary,
            paper=paper,
        )
        for name, cls, summary, paper in _ALGORITHMS
    ]


@hookimpl
def core_rl_advantages() -> list[Component]:
    return [
        Component(
            name=name,
            target=f"core_rl_reinforce.{target}",
            config=config and f"core_rl_reinforce.config:{config}",
            summary=summary,
            formula=formula,
            paper=paper,
            needs=needs,
        )
        for name, target, config, summary, formula, paper, needs in _ADVANTAGES
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="reinforce",
            target="core_rl_reinforce.reinforce:Reinforce",
            config="core_rl_reinforce.config:ReinforceLossConfig",
            summary="the score function times the advantage: no ratio, no clip",
        )
    ]


@hookimpl
def core_rl_resamplers() -> list[Component]:
    return [
        Component(
            name="pf_ppo",
            target="core_rl_reinforce.pf_ppo:PfPpo",
            config="core_rl_reinforce.config:PfPpoConfig",
            summary="draws samples with replacement, by how far their reward can be trusted",
            paper="2409.06957",
            needs=frozenset({"rewards"}),
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_reinforce.checks import check

    return check(config)
