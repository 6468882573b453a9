"""The resampler `pf_ppo`: who is drawn, how often, and from whom."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from core_rl.testing.batches import random_batch
from core_rl_reinforce.config import PfPpoConfig
from core_rl_reinforce.pf_ppo import PfPpo


def batch_of(rewards, group=None):
    """One sequence for each reward, all of them with tokens in the mask."""
    batch = random_batch(5, num_groups=4).select([0] * len(rewards))
    return batch.with_sequences(
        raw_rewards=torch.tensor(rewards), group=torch.tensor(group or [0] * len(rewards)), rewards=torch.zeros(len(rewards))
    )


def shares(batch, draws=400, **options):
    """How large a part of all draws each sequence is."""
    resampler = PfPpo(PfPpoConfig(**options))
    counts = Counter(index for seed in range(draws) for index in resampler(batch, seed))
    return [counts[index] / counts.total() for index in range(batch.num_sequences)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [16 / 21, 4 / 21, 1 / 21, 0]),
        ({"power": 1.0}, [4 / 7, 2 / 7, 1 / 7, 0]),
        ({"power": 0.0}, [1 / 4] * 4),
        ({"weights": "max_min"}, [1 / 2, 0, 1 / 2, 0]),
        ({"weights": "max_random"}, [4 / 7, 1 / 7, 1 / 7, 1 / 7]),
    ],
    ids=str,
)
def test_a_sample_is_drawn_in_proportion_to_its_weight(options, expected):
    """Rewards 4, 2, -1, 0: over many seeds, within four standard errors of 1600 draws."""
    assert shares(batch_of([4.0, 2.0, -1.0, 0.0]), **options) == pytest.approx(expected, abs=0.05)


def test_every_prompt_keeps_its_share_or_the_batch_is_one():
    """Rewards 10, 0 | 1, 0: each prompt's best twice; in the whole batch nearly always the 10, at 100 to 1."""
    batch = batch_of([10.0, 0.0, 1.0, 0.0], [0, 0, 1, 1])

    assert PfPpo(PfPpoConfig())(batch, 0) == [0, 0, 2, 2]
    assert shares(batch, level="batch") == pytest.approx([100 / 101, 0, 1 / 101, 0], abs=0.02)


def test_ties_share():
    """Two best and one worst: a third each; all equal: all alike."""
    assert shares(batch_of([1.0, 1.0, 0.0]), weights="max_min") == pytest.approx([1 / 3] * 3, abs=0.05)
    assert shares(batch_of([0.5] * 4), weights="max_min") == pytest.approx([1 / 4] * 4, abs=0.05)
    assert shares(batch_of([0.0] * 4)) == pytest.approx([1 / 4] * 4, abs=0.05)


@pytest.mark.parametrize("weights", ["pow", "max_min", "max_random"])
def test_what_failed_or_was_rejected_is_never_drawn(weights):
    """As many are drawn as are left; nothing when nothing is left."""
    batch = batch_of([float("nan"), 1.0, 3.0, 5.0])
    batch = batch.with_loss_mask(batch.loss_mask & (batch.sequence_ids != 3))
    drawn = [PfPpo(PfPpoConfig(weights=weights))(batch, seed) for seed in range(50)]

    assert {index for one in drawn for index in one} <= {1, 2}
    assert {len(one) for one in drawn} == {2}
    assert PfPpo(PfPpoConfig())(batch.with_loss_mask(torch.zeros_like(batch.loss_mask)), 0) == []


def test_a_seed_decides():
    """The same draw for the same seed, another one for another."""
    batch, resampler = batch_of([1.0] * 12), PfPpo(PfPpoConfig())

    assert resampler(batch, 7) == resampler(batch, 7)
    assert len({tuple(resampler(batch, seed)) for seed in range(10)}) > 1


def test_tiny_and_huge_rewards_keep_their_proportions():
    """A power of the reward neither underflows nor overflows."""
    for scale in (1e-30, 1e30):
        assert shares(batch_of([4 * scale, 2 * scale]), power=4.0) == pytest.approx([256 / 272, 16 / 272], abs=0.05)
