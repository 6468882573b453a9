"""Registers the algorithm `reward_model` with its loss `bradley_terry`, and the reward `reward_model`: a trained model as a reward."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_algorithms() -> list[Component]:
    return [
        Component(
            name="reward_model",
            target="core_rl_reward_model.config:RewardModel",
            config="core_rl_reward_model.config:RewardModel",
            summary="a score for whole sequences, from pairs (2203.02155)",
            paper="2203.02155",
            needs=frozenset({"pairs"}),
        )
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="bradley_terry",
            target="core_rl_reward_model.bradley_terry:BradleyTerry",
            config="core_rl_reward_model.config:BradleyTerryConfig",
            summary="the preferred one of a pair has the higher score, by the logistic of their difference (1706.03741)",
            formula="l = -log sigmoid(s_c - s_r - margin)",
            paper="1706.03741",
            needs=frozenset({"values", "pairs"}),
        )
    ]


@hookimpl
def core_rl_rewards() -> list[Component]:
    return [
        Component(
            name="reward_model",
            target="core_rl_reward_model.reward:RewardModelReward",
            config="core_rl_reward_model.config:RewardModelRewardConfig",
            summary="the score of a trained reward model",
            formula="R = s(prompt, completion)",
            paper="2203.02155",
        )
    ]
