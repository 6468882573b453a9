"""Rewards-to-go and ReMax, against sums by definition."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.algorithm import KlConfig
from core_rl.objective import apply_kl_to_rewards
from core_rl.testing.batches import random_batch
from core_rl_reinforce.config import RemaxConfig, ReturnsConfig
from core_rl_reinforce.remax import Remax
from core_rl_reinforce.returns import Returns

from . import reinforce_reference as reference


def own_rewards(batch):
    """The rewards of each sequence's own tokens: KL and turns where they fall, the final one (less the KL that is in it) at the end."""
    result = []
    lengths = batch.lengths.tolist()
    columns = [batch.loss_mask, batch["kl_rewards"].double(), batch["turn_rewards"].double()]
    for i, (mask, kl, turns) in enumerate(zip(*(column.split(lengths) for column in columns), strict=True)):
        own = [float(kl[t] + turns[t]) for t in range(lengths[i]) if mask[t]]
        if own:
            own[-1] += float(batch["raw_rewards"][i])
        result.append(own)
    return result


def expected_tokens(batch, per_sequence):
    rows = [iter(row) for row in per_sequence]
    return [next(rows[s]) if m else 0.0 for s, m in zip(batch.sequence_ids.tolist(), batch.loss_mask.tolist(), strict=True)]


def batch_of(seed):
    """Tool tokens inside, a KL penalty in the reward, rewards of turns at some tokens of the mask."""
    batch = random_batch(seed, num_groups=4, max_length=12)
    turns = torch.where(batch.loss_mask & (batch.positions % 3 == 0), 0.25, 0.0)
    return apply_kl_to_rewards(batch.with_tokens(turn_rewards=turns), KlConfig(coef=0.3, estimator="k1", place="reward"))


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
@given(seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=25)
def test_returns_are_sums_to_the_end(gamma, seed):
    """Time counts the policy's own tokens; the KL penalty acts at its token, the reward at the last one."""
    batch = batch_of(seed)
    found = Returns(ReturnsConfig(gamma=gamma))(batch)["advantages"]
    expected = expected_tokens(batch, [reference.returns(row, gamma) for row in own_rewards(batch)])

    assert found.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@given(seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=25)
def test_remax_is_the_same_less_the_greedy_reward(gamma, seed):
    """The baseline is one number for all tokens of a sequence, and has no KL in it."""
    batch = batch_of(seed)
    greedy = torch.rand(batch.num_sequences, generator=torch.Generator().manual_seed(seed))
    batch = batch.with_sequences(greedy_rewards=greedy)
    found = Remax(RemaxConfig(gamma=gamma))(batch)["advantages"]
    rows = [[x - float(greedy[i]) for x in reference.returns(row, gamma)] for i, row in enumerate(own_rewards(batch))]

    assert found.tolist() == pytest.approx(expected_tokens(batch, rows), rel=1e-4, abs=1e-5)


def _two_turns(**fields):
    """One sequence: a prompt token, two own tokens, two of a tool, one own token."""
    batch = random_batch(0, num_groups=6, max_length=20).select([0])
    mask = torch.tensor([False, True, True, False, False, True])
    return type(batch)(
        tokens=torch.zeros(6, dtype=torch.int64),
        cu_seqlens=torch.tensor([0, 6], dtype=torch.int32),
        positions=torch.arange(6, dtype=torch.int32),
        loss_mask=mask,
        token_fields={"generated": mask},
        sequence_fields={"rewards": torch.tensor([1.0]), "group": torch.tensor([0]), **fields},
    )


def test_a_tools_tokens_are_no_time():
    """Two steps before the last token, whatever the tool wrote: gamma and gamma squared. verl would give 0 before the tool's answer."""
    found = Returns(ReturnsConfig(gamma=0.5))(_two_turns())["advantages"]

    assert found.tolist() == [0.0, 0.25, 0.5, 0.0, 0.0, 1.0]


def test_remax_by_hand():
    """Reward 1, greedy 0.75: 0.25 at every own token; a better greedy answer turns the sign."""
    better, worse = (Remax(RemaxConfig())(_two_turns(greedy_rewards=torch.tensor([g])))["advantages"] for g in (0.75, 1.5))

    assert better.tolist() == [0.0, 0.25, 0.25, 0.0, 0.0, 0.25]
    assert worse.tolist() == [0.0, -0.5, -0.5, 0.0, 0.0, -0.5]


@pytest.mark.parametrize("fields", [{"rewards": math.nan}, {"greedy_rewards": math.nan}])
def test_a_failed_reward_is_no_advantage(fields):
    """Its own, or the greedy one's, with a KL penalty on its way."""
    tensors = {name: torch.tensor([value]) for name, value in ({"greedy_rewards": 0.5} | fields).items()}
    batch = _two_turns(**tensors).with_tokens(kl_rewards=torch.full((6,), -0.1))

    assert not Remax(RemaxConfig())(batch)["advantages"].any()
    assert Returns(ReturnsConfig())(batch)["advantages"].any() == ("rewards" not in fields)


def test_an_empty_mask_has_no_returns():
    """Every token was rejected."""
    batch = batch_of(2)
    batch = batch.with_loss_mask(torch.zeros_like(batch.loss_mask)).with_sequences(greedy_rewards=batch["rewards"])

    assert not Returns(ReturnsConfig())(batch)["advantages"].any()
    assert not Remax(RemaxConfig())(batch)["advantages"].any()
