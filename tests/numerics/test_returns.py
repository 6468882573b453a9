"""What each token of a sequence earns."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.algorithm import KlConfig
from core_rl.data.packing import pack
from core_rl.data.sample import Group, Prompt, Sample, Turn
from core_rl.numerics.returns import last_tokens, token_rewards
from core_rl.objective import apply_kl_to_rewards
from core_rl.testing.batches import random_batch

from .reference import rows


def paid(reward, mask, turns, penalty):
    """One row from its definition; `reward` without the penalty."""
    result = [0.0] * len(mask)
    inside = [t for t, m in enumerate(mask) if m]
    for t in inside:
        result[t] += penalty[t]
    if inside and not math.isnan(reward):
        result[inside[-1]] += reward
    for t, amount in enumerate(turns):
        before = [u for u in inside if u <= t]
        if before:
            result[before[-1]] += amount
    return result


@given(seed=st.integers(0, 10_000), coef=st.sampled_from([0.0, 0.3]))
@settings(deadline=None, max_examples=40)
def test_the_definition(seed, coef):
    """The score at the end, turns where they fall, the KL penalty token by token; a failed sequence keeps its penalty alone."""
    batch = random_batch(seed, max_length=12)
    random = torch.Generator().manual_seed(seed)
    turns = torch.randn(batch.num_tokens, generator=random) * (torch.rand(batch.num_tokens, generator=random) < 0.4)
    scores = batch["rewards"].index_fill(0, torch.tensor([0]), math.nan)
    batch = batch.with_tokens(turn_rewards=turns).with_sequences(rewards=scores)
    penalised = apply_kl_to_rewards(batch, KlConfig(coef=coef, estimator="k1", place="reward"))
    columns = (rows(x, batch) for x in (batch.loss_mask, turns, penalised["kl_rewards"]))
    expected = [x for row in zip(scores.tolist(), *columns, strict=True) for x in paid(*row)]
    found = token_rewards(penalised)

    assert found.tolist() == pytest.approx(expected, abs=1e-5)
    assert found.dtype == torch.float32


def test_the_sum_of_a_sequence_is_its_reward():
    """Less the penalty of the whole, when there is one: nothing is paid twice."""
    batch = random_batch(3, num_groups=5)
    penalised = apply_kl_to_rewards(batch, KlConfig(coef=0.5, estimator="k3", place="reward"))
    some = last_tokens(batch) >= 0
    totals = torch.stack([row.sum() for row in token_rewards(penalised).split(batch.lengths.tolist())])

    assert torch.allclose(totals[some], penalised["rewards"][some], atol=1e-5)
    assert (totals[~some] == 0).all()


def test_last_tokens_by_hand():
    """The last in the mask, -1 for none."""
    batch = random_batch(0, num_groups=3)
    expected = [
        max((start + t for t, m in enumerate(mask) if m), default=-1)
        for start, mask in zip(batch.cu_seqlens.tolist(), rows(batch.loss_mask, batch), strict=False)
    ]

    assert last_tokens(batch).tolist() == expected
    assert expected[1] == -1


def test_an_environments_reward_reaches_the_turn_it_answers():
    """Packed from turns: the reward of a tool's turn is the policy's, of the prompt's nobody's; the next sequence gets none of it."""

    def sample(*turns):
        return Sample(prompt=Prompt(id="p", text="1"), turns=turns, finish_reason="stop", completion_text="", reward=0.5)

    def wrote(*tokens, reward=0.0):
        return Turn(tokens=tokens, generated=True, logprobs=[-1.0] * len(tokens), reward=reward)

    def given(*tokens, reward=0.0):
        return Turn(tokens=tokens, generated=False, reward=reward)

    samples = [
        sample(given(1, 2, reward=8.0), wrote(3, 4), given(5, 6, reward=2.0), wrote(7, 8, reward=1.0)),
        sample(given(1, reward=4.0), given(9), wrote(3)),
    ]
    batch = pack([Group(prompt=samples[0].prompt, samples=samples)])

    assert token_rewards(batch).tolist() == [0, 0, 0, 2.0, 0, 0, 0, 1.5, 0, 0, 0.5]


def test_a_batch_without_a_mask_earns_nothing():
    """All rejected."""
    batch = random_batch(0)
    batch = batch.with_loss_mask(torch.zeros_like(batch.loss_mask)).with_tokens(turn_rewards=torch.ones(batch.num_tokens))

    assert (token_rewards(batch) == 0).all()
