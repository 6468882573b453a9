"""Groups that teach nothing."""

from __future__ import annotations

import math

import pytest
import torch

from core_rl.testing.batches import random_batch
from core_rl_rejections.config import ZeroVarianceConfig
from core_rl_rejections.zero_variance import ZeroVariance


def verdict(rewards, group, fields=None, **options):
    batch = random_batch(0, num_groups=6, group_size=1)
    batch = batch.with_sequences(rewards=torch.tensor(rewards), group=torch.tensor(group), **(fields or {}))
    kept = ZeroVariance(ZeroVarianceConfig(**options))(batch)
    per_sequence = [bool(kept.keep[start]) for start in batch.cu_seqlens[:-1].tolist()]
    whole = all(len(set(kept.keep[a:b].tolist())) == 1 for a, b in batch.cu_seqlens.unfold(0, 2, 1).tolist())
    return per_sequence, whole, kept.metrics["batch/zero_variance_frac"]


def test_equal_groups_go_and_others_stay_whole():
    """Groups need not be neighbours; every token of a sequence shares its fate."""
    kept, whole, share = verdict([1.0, 0.0, 1.0, 0.5, 0.0, 0.5], [7, 3, 7, 9, 3, 9])
    mixed, _, mixed_share = verdict([1.0, 0.0, 0.0, 0.5, 0.0, 0.5], [7, 3, 7, 9, 3, 9])

    assert (kept, whole, share) == ([False] * 6, True, 1.0)
    assert mixed == [True, False, True, False, False, False]
    assert math.isclose(mixed_share, 2 / 3)


def test_a_failed_reward_is_no_difference():
    """NaN does not make a group look varied, and a group of failures alone is dropped."""
    nan = math.nan
    kept, _, _ = verdict([1.0, nan, nan, nan, 0.0, 1.0], [0, 0, 1, 1, 2, 2])

    assert kept == [False, False, False, False, True, True]


def test_tolerance():
    """Differences up to the tolerance count as none."""
    near = [0.5, 0.5 + 1e-3, 0.0, 0.0, 0.0, 0.0]

    assert verdict(near, [0, 0, 1, 1, 1, 1])[0][0]
    assert not verdict(near, [0, 0, 1, 1, 1, 1], tolerance=0.01)[0][0]


def test_shaping_rewards_can_be_left_out_of_the_comparison():
    """Answers that differ in a penalty of length alone are equal without it; a failed sample is still none."""
    names = {"rewards/math": [1.0, 1.0, 0.0, 1.0, 0.0, 1.0], "rewards/overlong": [0.0, -0.5, 0.0, 0.0, 0.0, 0.0]}
    fields = {name: torch.tensor(values) for name, values in names.items()}
    fields |= {f"reward_weights/{name}": torch.full((6,), 0.3) for name in ("math", "overlong")}
    total = [0.3, 0.15, 0.0, 0.3, 0.0, math.nan]

    assert verdict(total, [0, 0, 1, 1, 2, 2], fields)[0] == [True, True, True, True, False, False]
    assert verdict(total, [0, 0, 1, 1, 2, 2], fields, without=("overlong",))[0] == [False, False, True, True, False, False]
    assert verdict(total, [0, 0, 1, 1, 2, 2], fields, without=("overlong", "math"))[0] == [False] * 6
    with pytest.raises(ValueError, match="only the whole sum has parts"):
        ZeroVarianceConfig(metric="math", without=("overlong",))
