"""The advantage `gae`: tokens, turns, decoupled and length-adaptive lambda, tool tokens, and the edges."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.algorithm import KlConfig
from core_rl.data.batch import PackedBatch
from core_rl.objective import apply_kl_to_rewards
from core_rl.testing.batches import in_double, random_batch
from core_rl_ppo.config import GaeConfig
from core_rl_ppo.gae import Gae

from .ppo_reference import gae, rows, token_rewards, token_steps, turn_steps

OPTIONS = [
    {},
    {"gamma": 0.9, "lam": 0.95},
    {"lam": 0.0},
    {"gamma": 0.0, "lam": 0.5},
    {"lam": 0.9, "lam_value": 1.0},
    {"lam": 0.7, "length_adaptive_alpha": 0.5},
    {"gamma": 0.95, "length_adaptive_alpha": 0.3, "lam_value": 1.0},
    {"lam": 0.9, "gamma": 0.9, "between": "zero"},
    {"length_adaptive_alpha": 0.4, "lam_value": 0.5, "between": "zero"},
    {"level": "turn"},
    {"level": "turn", "gamma": 0.9, "lam": 0.8, "lam_value": 0.95},
]


def expected(batch, options, scores):
    """[N] advantages and returns by the reference; `scores` are the rewards of the sequences, without KL."""
    config = GaeConfig(**options)
    result = [], []
    names = ["values", "loss_mask", "generated", "turn_rewards", *(["kl_rewards"] if "kl_rewards" in batch else [])]
    for score, (values, mask, generated, turn, *kl) in zip(scores, rows(batch, *names), strict=True):
        rewards = token_rewards(score, mask, turn, *kl)
        turns = config.level == "turn"
        steps = turn_steps(rewards, values, mask, generated) if turns else token_steps(rewards, values, mask, config.between)
        lam, lam_value = config.lam, config.lam if config.lam_value is None else config.lam_value
        if config.length_adaptive_alpha is not None:
            lam = max(0.0, 1 - 1 / (config.length_adaptive_alpha * max(1, sum(mask))))
        for column, found in zip(result, gae(steps, len(mask), config.gamma, lam, lam_value), strict=True):
            column.extend(found)
    return result


def busy(seed):
    """A batch with turn rewards anywhere, and a rejection that has taken tokens out of the mask since."""
    batch = random_batch(seed, max_length=14)
    random = torch.Generator().manual_seed(seed)
    paid = torch.randn(batch.num_tokens, generator=random) * (torch.rand(batch.num_tokens, generator=random) < 0.3)
    kept = batch.loss_mask & (torch.rand(batch.num_tokens, generator=random) > 0.15)
    return batch.with_tokens(turn_rewards=paid, values=batch["values"].where(kept, 0.0)).with_loss_mask(kept)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=25)
def test_the_definition(options, seed):
    """The double sum over steps, of ragged sequences with tool tokens, rejected tokens and an empty mask among them."""
    batch = busy(seed)
    found = Gae(GaeConfig(**options))(in_double(batch))
    advantages, returns = expected(batch, options, batch["rewards"].tolist())

    assert found["advantages"].tolist() == pytest.approx(advantages, abs=1e-5)
    assert found["returns"].tolist() == pytest.approx(returns, abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"lam": 0.9, "gamma": 0.9}, {"level": "turn", "lam": 0.5}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_the_kl_penalty_falls_on_its_own_tokens(options, seed):
    """What the core takes from the rewards stands at each token, and the end gets the score alone."""
    batch = busy(seed)
    penalised = apply_kl_to_rewards(batch, KlConfig(coef=0.3, estimator="k1", place="reward"))
    found = Gae(GaeConfig(**options))(penalised)
    advantages, returns = expected(penalised, options, batch["rewards"].tolist())

    assert found["advantages"].tolist() == pytest.approx(advantages, abs=1e-5)
    assert found["returns"].tolist() == pytest.approx(returns, abs=1e-5)


def conversation(values, rewards=0.0, turn_rewards=None):
    """One sequence: prompt, two generated tokens, a tool's, two generated tokens. The mask is where the policy wrote."""
    mask = torch.tensor([False, True, True, False, True, True])
    fields = {"generated": mask, "values": torch.tensor(values)}
    if turn_rewards is not None:
        fields["turn_rewards"] = torch.tensor(turn_rewards)
    return PackedBatch(
        tokens=torch.zeros(6, dtype=torch.int64),
        cu_seqlens=torch.tensor([0, 6], dtype=torch.int32),
        positions=torch.arange(6, dtype=torch.int32),
        loss_mask=mask,
        token_fields=fields,
        sequence_fields={"rewards": torch.tensor([rewards]), "group": torch.tensor([0])},
    )


VALUES = [9.0, 0.5, 0.25, 9.0, 0.125, 0.75]


@pytest.mark.parametrize(
    ("options", "advantages"),
    [
        ({}, [0, 0.5, 0.75, 0, 0.875, 0.25]),
        ({"lam": 0.0}, [0, -0.25, -0.125, 0, 0.625, 0.25]),
        ({"lam": 0.0, "between": "zero"}, [0, -0.25, -0.25, 0, 0.625, 0.25]),
        ({"lam": 0.5, "gamma": 0.5, "between": "zero"}, [0, -0.4287109375, -0.21484375, 0, 0.3125, 0.25]),
        ({"level": "turn"}, [0, 0.5, 0.5, 0, 0.875, 0.875]),
        ({"level": "turn", "lam": 0.0}, [0, -0.375, -0.375, 0, 0.875, 0.875]),
        ({"level": "turn", "gamma": 0.5}, [0, 0.0, 0.0, 0, 0.875, 0.875]),
    ],
    ids=str,
)
def test_by_hand(options, advantages):
    """Reward 1 at the end. V 1/2, 1/4 | 1/8, 3/4: with lambda 1, 1 - V; with lambda 0 the step's own error.

    `zero` loses the value beyond the tool's token: 0 + 0 - 1/4 where `carry` has 1/8 - 1/4.
    """
    found = Gae(GaeConfig(**options))(conversation(VALUES, 1.0))["advantages"].tolist()

    assert found == pytest.approx(advantages, abs=1e-7)


def test_returns_with_lambda_one_do_not_know_the_critic():
    """Decoupled: whatever the values, the critic learns what was paid from here on."""
    for values in (VALUES, [3.0, -2.0, 7.0, 0.0, 1.0, -5.0]):
        batch = conversation(values, 1.0, turn_rewards=[0, 0, 2.0, 0, 0, 0])
        found = Gae(GaeConfig(lam=0.3, lam_value=1.0))(batch)["returns"].tolist()

        assert found == pytest.approx([0, 3, 3, 0, 1, 1], abs=1e-6)


def test_an_environments_reward_is_paid_to_the_turn_before_it():
    """It stands at the tool's own token, which is no step."""
    batch = conversation([0.0] * 6, 0.0, turn_rewards=[0, 0, 0, 2.0, 0, 0])

    assert Gae(GaeConfig(lam=0.0))(batch)["advantages"].tolist() == [0, 0, 2, 0, 0, 0]
    assert Gae(GaeConfig(level="turn", lam=0.0))(batch)["advantages"].tolist() == [0, 2, 2, 0, 0, 0]


@pytest.mark.parametrize(("length", "lam"), [(4, 0.0), (20, 0.0), (40, 0.5), (200, 0.9), (2000, 0.99)])
def test_the_lambda_of_vapo_by_length(length, lam):
    """1 - 1 / (0.05 L), and 0 up to 20 tokens; read off the advantage just before the last token."""
    mask = torch.ones(length + 1, dtype=torch.bool)
    mask[0] = False
    batch = PackedBatch(
        tokens=torch.zeros(length + 1, dtype=torch.int64),
        cu_seqlens=torch.tensor([0, length + 1], dtype=torch.int32),
        positions=torch.arange(length + 1, dtype=torch.int32),
        loss_mask=mask,
        token_fields={"generated": mask, "values": torch.zeros(length + 1)},
        sequence_fields={"rewards": torch.tensor([1.0])},
    )
    found = Gae(GaeConfig(length_adaptive_alpha=0.05, lam_value=1.0))(batch)

    assert found["advantages"][-1] == 1.0
    assert found["advantages"][-2].item() == pytest.approx(lam, abs=1e-7)
    assert (found["returns"][1:] == 1.0).all()


def test_alone_or_among_others_a_sequence_has_the_same_advantage():
    """Lambdas of other lengths, turns of other sequences: nothing crosses a border, in any order of packing."""
    batch = busy(5)
    for options in OPTIONS:
        advantage = Gae(GaeConfig(**options))
        whole = advantage(batch)
        for s in range(batch.num_sequences):
            own = advantage(batch.select([s]))

            assert torch.equal(own["advantages"], whole["advantages"][batch.token_indices([s])])
            assert torch.equal(own["returns"], whole["returns"][batch.token_indices([s])])


@pytest.mark.parametrize("options", [{}, {"level": "turn"}, {"between": "zero", "lam": 0.5}], ids=str)
def test_a_failed_reward_teaches_neither_policy_nor_critic(options):
    """Advantage 0, and returns that are the values."""
    batch = busy(1)
    failed = batch.with_sequences(rewards=batch["rewards"].index_fill(0, torch.tensor([0]), math.nan))
    found, sound = Gae(GaeConfig(**options))(failed), Gae(GaeConfig(**options))(batch)
    first = batch.sequence_ids == 0

    assert (found["advantages"][first] == 0).all()
    assert torch.equal(found["returns"][first], batch["values"][first])
    assert torch.equal(found["advantages"][~first], sound["advantages"][~first])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_empty_mask_is_all_zero_even_without_values(options):
    """Where everything was rejected no forward pass is made."""
    batch = random_batch(0)
    bare = PackedBatch(
        tokens=batch.tokens,
        cu_seqlens=batch.cu_seqlens,
        positions=batch.positions,
        loss_mask=torch.zeros_like(batch.loss_mask),
        token_fields={"generated": batch["generated"]},
        sequence_fields=batch.sequence_fields,
    )
    found = Gae(GaeConfig(**options))(bare)

    assert (found["advantages"] == 0).all()
    assert (found["returns"] == 0).all()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_stands_outside_the_mask_is_not_read(options):
    """NaN there reaches nothing, and no gradient comes out."""
    batch = busy(2)
    dirty = batch.with_tokens(values=batch["values"].where(batch.loss_mask, math.nan).requires_grad_())
    found, clean = Gae(GaeConfig(**options))(dirty), Gae(GaeConfig(**options))(batch)

    assert torch.equal(found["advantages"], clean["advantages"])
    assert torch.equal(found["returns"], clean["returns"])
    assert not found["advantages"].requires_grad


def test_a_long_sequence_with_extreme_values_stays_finite():
    """8192 tokens, values of a million, every lambda."""
    count = 8192
    mask = torch.arange(count) > 0
    batch = PackedBatch(
        tokens=torch.zeros(count, dtype=torch.int64),
        cu_seqlens=torch.tensor([0, count], dtype=torch.int32),
        positions=torch.arange(count, dtype=torch.int32),
        loss_mask=mask,
        token_fields={"generated": mask, "values": 1e6 * (-1.0) ** torch.arange(count)},
        sequence_fields={"rewards": torch.tensor([1.0])},
    )
    for options in OPTIONS:
        found = Gae(GaeConfig(**options))(batch)

        assert found["advantages"].isfinite().all()
        assert found["returns"].isfinite().all()
