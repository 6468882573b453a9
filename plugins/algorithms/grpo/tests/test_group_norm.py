"""The advantage `group_norm`: options reach the statistics, values reach the tokens."""

from __future__ import annotations

import math

import pytest
import torch

from core_rl.testing.batches import random_batch
from core_rl_grpo.config import GroupNormConfig
from core_rl_grpo.group_norm import GroupNorm


def _batch(rewards, group):
    """One sequence of the random batch for each reward, so that lengths are ragged."""
    batch = random_batch(5, num_groups=4).select([index % 4 for index in range(len(rewards))])
    return batch.with_sequences(rewards=torch.tensor(rewards), group=torch.tensor(group))


def _per_sequence(batch, advantages):
    return [
        row[mask].unique().tolist()
        for row, mask in zip(*(x.split(batch.lengths.tolist()) for x in (advantages, batch.loss_mask)), strict=True)
    ]


def test_every_token_of_a_sample_gets_the_same_and_the_prompt_gets_none():
    """GRPO by hand: two groups of two, (R - mean) / std with std = |a - b| / sqrt(2)."""
    batch = _batch([1.0, 0.0, 4.0, 2.0], [0, 0, 1, 1])
    advantages = GroupNorm(GroupNormConfig(eps=0.0))(batch)["advantages"]
    found = _per_sequence(batch, advantages)

    assert (advantages[~batch.loss_mask] == 0).all()
    assert found[0] == pytest.approx([0.5**0.5])
    assert found[1] == []
    assert found[2] == pytest.approx([0.5**0.5])
    assert found[3] == pytest.approx([-(0.5**0.5)])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"std_level": "none"}, 0.5),
        ({"std": "population", "eps": 0.0}, 1.0),
        ({"std": "population", "eps": 0.5}, 0.5),
        ({"std_level": "batch", "std": "population", "eps": 0.0}, 0.5 / math.sqrt(35 / 16)),
        ({"std_level": "none", "mean_level": "batch"}, -0.75),
        ({"std_level": "none", "mean_level": "none"}, 1.0),
        ({"std_level": "none", "leave_one_out": "mean"}, 1.0),
        ({"std_level": "none", "mean_level": "none", "clip_high": 0.3}, 0.3),
        ({"std_level": "none", "mean_level": "batch", "clip_low": -0.2}, -0.2),
    ],
)
def test_every_option_changes_the_first_sample_as_it_should(options, expected):
    """Rewards 1, 0 | 4, 2: group mean 1/2, batch mean 7/4, batch variance 35/16."""
    batch = _batch([1.0, 0.0, 4.0, 2.0], [0, 0, 1, 1])
    found = _per_sequence(batch, GroupNorm(GroupNormConfig(**options))(batch)["advantages"])

    assert found[0] == pytest.approx([expected])


def test_leave_one_out_is_nemos():
    """Rewards 1, 0, 0, 0: the winner's others have no spread, and so no scale; the losers' have mean 1/3 and std 1/sqrt(3)."""
    batch = _batch([1.0, 0.0, 0.0, 0.0], [0] * 4)
    found = GroupNorm(GroupNormConfig(leave_one_out="both", eps=0.0))(batch)["advantages"]
    sequences = batch.sequence_ids

    assert found[batch.loss_mask & (sequences == 0)].tolist() == pytest.approx(
        [1.0] * int((batch.loss_mask & (sequences == 0)).sum())
    )
    assert found[batch.loss_mask & (sequences > 0)].unique().tolist() == pytest.approx([-(3**-0.5)])


@pytest.mark.parametrize("rewards", [[1.0, 1.0, 1.0, 1.0], [math.nan, 3.0, 2.0, 2.0], [math.nan] * 4])
def test_nothing_to_learn_is_zero(rewards):
    """All equal, one of two failed, all failed."""
    batch = _batch(rewards, [0, 0, 1, 1])

    assert (GroupNorm(GroupNormConfig())(batch)["advantages"] == 0).all()
